package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/hack/images/artefacts"
)

// What people unpack is a program that they may run, the licence and, where a shell can run it, what completes command
// lines.
func TestArchivesOfThePlugin(t *testing.T) {
	beside := artefacts.Files{"LICENSE": {Content: []byte("licence"), Mode: 0o644},
		"kubectl_complete-harrier": {Content: []byte("script"), Mode: 0o755}}
	for system, test := range map[string]struct {
		name string
		want map[string]fs.FileMode
	}{
		"linux":   {"kubectl-harrier-1.2.3-linux-arm64.tar.gz", map[string]fs.FileMode{"kubectl-harrier": 0o755, "LICENSE": 0o644, "kubectl_complete-harrier": 0o755}},
		"darwin":  {"kubectl-harrier-1.2.3-darwin-arm64.tar.gz", map[string]fs.FileMode{"kubectl-harrier": 0o755, "LICENSE": 0o644, "kubectl_complete-harrier": 0o755}},
		"windows": {"kubectl-harrier-1.2.3-windows-arm64.zip", map[string]fs.FileMode{"kubectl-harrier.exe": 0o755, "LICENSE": 0o644}},
	} {
		platform, archive, err := packPlugin(system, "arm64", "1.2.3", []byte("program"), beside)
		_, again, _ := packPlugin(system, "arm64", "1.2.3", []byte("program"), beside)
		if err != nil || platform.Archive != test.name || !bytes.Equal(archive, again) {
			t.Errorf("%s: %+v, the same twice: %t, %v", system, platform, bytes.Equal(archive, again), err)
		}
		got := modes(t, archive)
		if !maps.Equal(got, test.want) || got[platform.Program] == 0 {
			t.Errorf("%s: has %v, want %v, with %s", system, got, test.want, platform.Program)
		}
	}
	if !slices.Equal(pluginSystems, []string{"darwin", "linux", "windows"}) {
		t.Errorf("it is for %v", pluginSystems)
	}
}

// modes are those of the files in an archive.
func modes(t *testing.T, archive []byte) map[string]fs.FileMode {
	t.Helper()
	found := map[string]fs.FileMode{}
	if zipped, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive))); err == nil {
		for _, file := range zipped.File {
			found[file.Name] = file.Mode()
		}
		return found
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = fs.FileMode(header.Mode)
	}
}
