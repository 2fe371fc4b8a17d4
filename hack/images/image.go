package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the time of everything in an image, so that the same content gives the same bytes.
var epoch = time.Unix(0, 0).UTC()

// file is a regular file of an image.
type file struct {
	content []byte
	mode    fs.FileMode
}

// imageOf makes an image of one layer. The same files give the same bytes on every machine and at any time: entries are
// sorted, owned by root, and dated to the epoch.
func imageOf(r recipe, files map[string]file, architecture string, v version) (v1.Image, error) {
	content, err := layerOf(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)),
			nil
	},
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	labels := map[string]string{"org.opencontainers.image.licenses": "Apache-2.0"}
	if v != (version{}) {
		labels["org.opencontainers.image.version"], labels["org.opencontainers.image.revision"] = v.version, v.commit
	}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), &v1.ConfigFile{
		Architecture: architecture, OS: "linux", Created: v1.Time{Time: epoch},
		Config: v1.Config{
			Entrypoint: []string{r.entrypoint}, User: r.user, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/"},
			Labels: labels,
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "hack/images"},
	})
}

// save writes an image to a file under each of the names, in the format of "docker save".
func save(image v1.Image, target string, names []string) error {
	tags := make(map[name.Tag]v1.Image, len(names))
	for _, each := range names {
		tag, err := name.NewTag(each)
		if err != nil {
			return err
		}
		tags[tag] = image
	}
	return tarball.MultiWriteToFile(target, tags)
}

// layerOf returns an uncompressed tar of files, by path in the image, with all parent directories and a /tmp to which
// everybody may write.
func layerOf(files map[string]file) ([]byte, error) {
	var layer bytes.Buffer
	writer := tar.NewWriter(&layer)
	for _, directory := range directoriesOf(files) {
		mode := int64(0o755)
		if directory == "/tmp" {
			mode = 0o1777
		}
		header := &tar.Header{
			Typeflag: tar.TypeDir,
			Name:     strings.TrimPrefix(directory, "/") + "/",
			Mode:     mode,
			ModTime:  epoch,
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write directory %s: %w", directory, err)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(files)) {
		added := files[target]
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(target, "/"), Mode: int64(added.mode),
			Size: int64(len(added.content)), ModTime: epoch,
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write header of %s: %w", target, err)
		}
		if _, err := writer.Write(added.content); err != nil {
			return nil, fmt.Errorf("write %s: %w", target, err)
		}
	}
	return layer.Bytes(), writer.Close()
}

// directoriesOf returns /tmp and the parents of all files, each parent before its children.
func directoriesOf(files map[string]file) []string {
	directories := map[string]struct{}{"/tmp": {}}
	for target := range files {
		for parent := path.Dir(target); parent != "/"; parent = path.Dir(parent) {
			directories[parent] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(directories))
}
