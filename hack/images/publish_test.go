package main

import (
	"io"
	"log"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/harrier-ci/harrier/hack/images/artefacts"
)

func TestWhatIsPublishedIsWhatWasMade(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	tag := serve(t, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	archive, err := ociArchive(sampleIndex(t), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"image-1.2.3.oci.tar": archive, "gha-runner-scale-set-1.2.3.tgz": []byte("chart"),
		ownersName: []byte("owners: []\n")}
	files[checksumsName] = artefacts.Checksums(files)
	directory := filepath.Join(t.TempDir(), "release")
	if err := writeFiles(directory, files); err != nil {
		t.Fatal(err)
	}
	if err := publish(t.Context(), directory, tag.RegistryStr()+"/team"); err != nil {
		t.Fatal(err)
	}
	checkPushed(t, tag)
	// A step that is repeated finds signatures, which no checksum covers.
	write(t, filepath.Join(directory, "SHA256SUMS.sigstore.json"), "{}")
	if err := publish(t.Context(), directory, tag.RegistryStr()+"/team"); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(directory, "gha-runner-scale-set-1.2.3.tgz"), "another chart")
	if err := publish(t.Context(), directory, tag.RegistryStr()+"/team"); err == nil ||
		!strings.Contains(err.Error(), "make it again") {
		t.Errorf("a changed release: %v", err)
	}
	if err := publish(t.Context(), t.TempDir(), tag.RegistryStr()); err == nil ||
		!strings.Contains(err.Error(), "is not a release") {
		t.Errorf("no release: %v", err)
	}
}

// checkPushed compares what a registry has with what was made.
func checkPushed(t *testing.T, tag name.Tag) {
	t.Helper()
	got, err := remote.Index(tag.Registry.Repo("team", "gha-runner-scale-set-controller").Tag("1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := got.Digest()
	if want, failed := sampleIndex(t).Digest(); err != nil || failed != nil || pushed != want {
		t.Errorf("%s was pushed, want %s; %v", pushed, want, err)
	}
	for _, chart := range chartNames {
		owners, err := remote.Image(tag.Registry.Repo("team", "charts", chart).Tag("artifacthub.io"))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := owners.Manifest()
		if err != nil || manifest.Config.MediaType != ownersConfig || len(manifest.Layers) != 1 ||
			manifest.Layers[0].MediaType != ownersLayer {
			t.Errorf("Artifact Hub finds %+v beside %s; %v", manifest, chart, err)
		}
	}
}
