package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// epoch is the creation time of every image, so that the same content gives the same bytes.
const epoch = "1970-01-01T00:00:00Z"

// Spec describes an image.
type Spec struct {
	// Files are the image's files, by absolute path.
	Files map[string]File
	// Entrypoint is the command. It is required.
	Entrypoint []string
	// User is "uid:gid"; empty means root.
	User string
	// Environment has entries of the form NAME=value.
	Environment []string
	// WorkingDirectory of the command; empty means /.
	WorkingDirectory string
	// Labels such as org.opencontainers.image.version.
	Labels map[string]string
}

// Image is an image in memory: its configuration and its only layer.
type Image struct {
	// Config is the OCI image configuration (JSON).
	Config []byte
	// Layer is an uncompressed tar.
	Layer []byte
}

type imageConfig struct {
	Architecture string          `json:"architecture"`
	OS           string          `json:"os"`
	Created      string          `json:"created"`
	Config       containerConfig `json:"config"`
	RootFS       rootFS          `json:"rootfs"`
	History      []history       `json:"history"`
}

type containerConfig struct {
	User       string            `json:"User,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	Entrypoint []string          `json:"Entrypoint"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// saved is an entry of manifest.json in a docker archive.
type saved struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

const layerName = "layer.tar"

// New builds an image for this machine's architecture. It fails if there is no entrypoint, a file can't be read, or a path is not
// absolute and clean.
func New(spec Spec) (*Image, error) {
	if len(spec.Entrypoint) == 0 {
		return nil, errors.New("image without an entrypoint")
	}
	layer, err := layerOf(spec.Files)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(imageConfig{
		Architecture: runtime.GOARCH, OS: "linux", Created: epoch,
		Config: containerConfig{
			User: spec.User, Env: spec.Environment, Entrypoint: spec.Entrypoint,
			WorkingDir: spec.WorkingDirectory, Labels: spec.Labels,
		},
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{Digest(layer)}},
		History: []history{{Created: epoch, CreatedBy: "hack/images"}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode image configuration: %w", err)
	}
	return &Image{Config: config, Layer: layer}, nil
}

// Digest returns the content address of data, as registries spell it.
func Digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// Save writes the image to file under the given name and tag. The file appears complete or not at all.
func (image *Image) Save(file, nameAndTag string) error {
	scratch, err := os.CreateTemp(filepath.Dir(file), ".image-*")
	if err != nil {
		return fmt.Errorf("create image archive: %w", err)
	}
	defer func() { _ = os.Remove(scratch.Name()) }()
	if err := errors.Join(image.write(scratch, nameAndTag), scratch.Close()); err != nil {
		return fmt.Errorf("write image archive %s: %w", file, err)
	}
	if err := os.Rename(scratch.Name(), file); err != nil {
		return fmt.Errorf("keep image archive: %w", err)
	}
	return nil
}

func (image *Image) write(target io.Writer, nameAndTag string) error {
	configName := fmt.Sprintf("%x.json", sha256.Sum256(image.Config))
	manifest, err := json.Marshal([]saved{{Config: configName, RepoTags: []string{nameAndTag}, Layers: []string{layerName}}})
	if err != nil {
		return err
	}
	writer := tar.NewWriter(target)
	for _, entry := range []struct {
		name    string
		content []byte
	}{{"manifest.json", manifest}, {configName, image.Config}, {layerName, image.Layer}} {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: entry.name, Mode: 0o644, Size: int64(len(entry.content)), ModTime: time.Unix(0, 0),
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := writer.Write(entry.content); err != nil {
			return err
		}
	}
	return writer.Close()
}
