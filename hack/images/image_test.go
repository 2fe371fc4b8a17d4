package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var sample = recipe{name: "sample", entrypoint: "/opt/deep/program", user: "65532:65532"}

func sampleImage(t *testing.T, architecture string) v1.Image {
	t.Helper()
	image, err := imageOf(sample, map[string]file{
		"/opt/deep/program": {content: []byte("#!binary"), mode: 0o755}, "/etc/name": {content: []byte("a"), mode: 0o644},
	}, architecture, version{"1.2.3", "abc"})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestSameContentGivesSameBytes(t *testing.T) {
	for _, architecture := range supported {
		var archives [][]byte
		for range 2 {
			target := filepath.Join(t.TempDir(), "image.tar")
			if err := save(sampleImage(t, architecture), target, []string{"localhost/test:1"}); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			archives = append(archives, content)
		}
		if !bytes.Equal(archives[0], archives[1]) {
			t.Errorf("%s: two archives of the same content differ", architecture)
		}
	}
}

func TestAnArchiveHasTheImageUnderItsNames(t *testing.T) {
	target := filepath.Join(t.TempDir(), "image.tar")
	names := []string{"docker.io/library/docker:dind", "localhost/test:1"}
	if err := save(sampleImage(t, "arm64"), target, names); err != nil {
		t.Fatal(err)
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(target) })
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(manifest[0].RepoTags)); !slices.Equal(got, names) {
		t.Errorf("names are %q, want %q", got, names)
	}
	image, err := tarball.ImageFromPath(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{"/opt/deep/program"}, User: "65532:65532",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/"},
		Labels: map[string]string{
			"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.version": "1.2.3",
			"org.opencontainers.image.revision": "abc",
		},
	}
	if got := config.Config; config.Architecture != "arm64" || config.OS != "linux" || !reflect.DeepEqual(got, want) {
		t.Errorf("configuration is of %s/%s: %+v, want %+v", config.OS, config.Architecture, got, want)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, want one; %v", len(layers), err)
	}
	if diff, err := layers[0].DiffID(); err != nil || diff != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %s, the configuration says %s; %v", diff, config.RootFS.DiffIDs[0], err)
	}
}

func TestLayerHoldsParentsBeforeChildrenAndTmp(t *testing.T) {
	layers, err := sampleImage(t, "amd64").Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		name string
		mode int64
	}
	var got []entry
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{header.Name, header.Mode})
		if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(epoch) {
			t.Errorf("%s is owned by %d:%d and dated %s", header.Name, header.Uid, header.Gid, header.ModTime)
		}
	}
	want := []entry{{"etc/", 0o755}, {"opt/", 0o755}, {"opt/deep/", 0o755}, {"tmp/", 0o1777}, {"etc/name", 0o644},
		{"opt/deep/program", 0o755}}
	if !slices.Equal(got, want) {
		t.Errorf("layer has %v, want %v", got, want)
	}
}
