package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/harrier-ci/harrier/hack/images/artefacts"
)

// signatureSuffix ends the names of files that hack/publish.sh adds to a release.
const signatureSuffix = ".sigstore.json"

// publish pushes the image of a release, as `make release` wrote it into a directory, to a registry such as
// registry.example.com/team, and prints its name with its digest. The charts are for `helm push`.
func publish(ctx context.Context, directory, registry string) error {
	files, err := artefacts.Read(directory, "")
	if err != nil {
		return fmt.Errorf("read the release: %w", err)
	}
	version := ""
	contents := map[string][]byte{}
	for name, file := range files {
		if strings.HasSuffix(name, signatureSuffix) { // of a publication before
			continue
		}
		if from, ok := strings.CutPrefix(name, "image-"); ok && strings.HasSuffix(from, archiveSuffix) {
			version = strings.TrimSuffix(from, archiveSuffix)
		}
		contents[name] = file.Content
	}
	sums := contents[checksumsName]
	delete(contents, checksumsName)
	if version == "" || !bytes.Equal(artefacts.Checksums(contents), sums) {
		return fmt.Errorf("%s is not a release as `make release` made it: make it again", directory)
	}
	target, err := name.NewTag(registry + "/" + path.Base(publicImage) + ":" + version)
	if err != nil {
		return fmt.Errorf("registry %q: want a host and a path, such as registry.example.com/team: %w", registry, err)
	}
	scratch, err := os.MkdirTemp("", "harrier-publish-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	index, err := readArchive(contents["image-"+version+archiveSuffix], scratch)
	if err != nil {
		return fmt.Errorf("read the image of the release: %w", err)
	}
	if err := push(ctx, index, target); err != nil {
		return fmt.Errorf("push %s: %w", target.Name(), err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := pushOwners(ctx, registry, contents[ownersName]); err != nil {
		return err
	}
	fmt.Println(target.Context().Digest(digest.String()))
	return nil
}

// readArchive returns the only index in an archive of the layout of OCI. It unpacks the archive into a directory, from
// which the index is read while it is pushed.
func readArchive(archive []byte, directory string) (v1.ImageIndex, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return nil, err
		}
		if err := root.WriteFile(header.Name, content, 0o644); err != nil {
			return nil, err
		}
	}
	outer, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the archive has %d images, want 1", len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}
