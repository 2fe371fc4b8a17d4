// Package archive builds container images from local files without a container engine: one layer, no base image, in the format of
// "docker save", which containerd imports and hack/images/registry can push. hack/images/recipe says what goes into them. The
// same files give the same bytes on every machine and at any time: entries are sorted, owned by root, and dated to the epoch.
package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a regular file of an image.
type File struct {
	// Source is the file on this machine.
	Source string
	// Mode is the file's mode in the image. That of Source is ignored, because umasks differ between machines.
	Mode fs.FileMode
}

// layerOf returns an uncompressed tar of files, by path in the image, with all parent directories and a /tmp to which everybody
// may write. It fails if a source can't be read or a path is not absolute and clean.
func layerOf(files map[string]File) ([]byte, error) {
	var layer bytes.Buffer
	writer := tar.NewWriter(&layer)
	for _, directory := range directoriesOf(files) {
		if err := writer.WriteHeader(directoryHeader(directory)); err != nil {
			return nil, fmt.Errorf("write directory %s: %w", directory, err)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(writer, target, files[target]); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("end layer: %w", err)
	}
	return layer.Bytes(), nil
}

// directoriesOf returns /tmp and the parents of all files, each parent before its children.
func directoriesOf(files map[string]File) []string {
	directories := map[string]struct{}{"/tmp": {}}
	for target := range files {
		for parent := path.Dir(target); parent != "/" && parent != "."; parent = path.Dir(parent) {
			directories[parent] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(directories))
}

func directoryHeader(directory string) *tar.Header {
	mode := int64(0o755)
	if directory == "/tmp" {
		mode = 0o1777
	}
	return &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(directory, "/") + "/", Mode: mode, ModTime: time.Unix(0, 0)}
}

func addFile(writer *tar.Writer, target string, file File) error {
	if !path.IsAbs(target) || path.Clean(target) != target {
		return fmt.Errorf("image path %q: want an absolute path without dots", target)
	}
	content, err := os.ReadFile(file.Source)
	if err != nil {
		return fmt.Errorf("read content of %s: %w", target, err)
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(target, "/"),
		Mode: int64(file.Mode.Perm()), Size: int64(len(content)), ModTime: time.Unix(0, 0),
	}
	if err := writer.WriteHeader(header); err != nil {
		return fmt.Errorf("write header of %s: %w", target, err)
	}
	if _, err := io.Copy(writer, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("write %s: %w", target, err)
	}
	return nil
}
