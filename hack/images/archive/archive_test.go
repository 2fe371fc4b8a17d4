package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func program(t *testing.T, mode fs.FileMode, modified time.Time) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!binary"), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, modified, modified); err != nil {
		t.Fatal(err)
	}
	return file
}

func specOf(source string) Spec {
	return Spec{
		Files:      map[string]File{"/opt/deep/program": {Source: source, Mode: 0o755}, "/etc/name": {Source: source, Mode: 0o644}},
		Entrypoint: []string{"/opt/deep/program"}, User: "65532:65532", Labels: map[string]string{"b": "2", "a": "1"},
	}
}

func TestSameContentGivesSameBytes(t *testing.T) {
	var archives [][]byte
	for _, source := range []string{
		program(t, 0o755, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)),
		program(t, 0o600, time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)),
	} {
		image, err := New(specOf(source))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "image.tar")
		if err := image.Save(file, "localhost/test:1"); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, content)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("modes and dates of the sources changed the archive")
	}
}

func TestLayerHoldsParentsBeforeChildrenAndTmp(t *testing.T) {
	image, err := New(specOf(program(t, 0o755, time.Unix(0, 0))))
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name string
		Mode int64
	}
	var got []entry
	for reader := tar.NewReader(bytes.NewReader(image.Layer)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{header.Name, header.Mode})
	}
	want := []entry{
		{"etc/", 0o755}, {"opt/", 0o755}, {"opt/deep/", 0o755}, {"tmp/", 0o1777},
		{"etc/name", 0o644}, {"opt/deep/program", 0o755},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("layer entries (-want +got):\n%s", diff)
	}
}

func TestConfigNamesItsLayer(t *testing.T) {
	image, err := New(specOf(program(t, 0o755, time.Unix(0, 0))))
	if err != nil {
		t.Fatal(err)
	}
	var config imageConfig
	if err := json.Unmarshal(image.Config, &config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{Digest(image.Layer)}, config.RootFS.DiffIDs); diff != "" {
		t.Errorf("diff_ids (-want +got):\n%s", diff)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("user is %q", config.Config.User)
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	source := program(t, 0o755, time.Unix(0, 0))
	for name, spec := range map[string]Spec{
		"no entrypoint":  {Files: map[string]File{"/a": {Source: source}}},
		"relative path":  {Files: map[string]File{"a": {Source: source}}, Entrypoint: []string{"/a"}},
		"path with dots": {Files: map[string]File{"/a/../b": {Source: source}}, Entrypoint: []string{"/b"}},
		"missing source": {Files: map[string]File{"/a": {Source: source + "-missing"}}, Entrypoint: []string{"/a"}},
	} {
		if _, err := New(spec); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
