package artefacts

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// krewPlatform has what a manifest says of one platform.
type krewPlatform struct {
	Selector struct {
		MatchLabels struct {
			OS   string `json:"os"`
			Arch string `json:"arch"`
		} `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
	Files  []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"files"`
}

// What krew demands: these fields and no others, a name that kubectl's program has after its prefix, a version with a
// v, for each platform an absolute address, the checksum of what is there, and a program that is among the files.
func TestTheManifestIsAsKrewReadsIt(t *testing.T) {
	files := map[string][]byte{"a-linux.tar.gz": []byte("one"), "a-windows.zip": []byte("two")}
	platforms := []Platform{{"linux", "amd64", "a-linux.tar.gz", "kubectl-harrier"},
		{"windows", "arm64", "a-windows.zip", "kubectl-harrier.exe"}}
	var manifest struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Version          string         `json:"version"`
			Homepage         string         `json:"homepage"`
			ShortDescription string         `json:"shortDescription"`
			Description      string         `json:"description"`
			Platforms        []krewPlatform `json:"platforms"`
		} `json:"spec"`
	}
	text := Krew(product, "https://example.com/v1.2.3/", platforms, files)
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	spec := &manifest.Spec
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" ||
		manifest.Metadata.Name != "harrier" ||
		!regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(spec.Version) ||
		spec.Homepage != "https://example.com/team/product" ||
		len(spec.ShortDescription) == 0 || len(spec.ShortDescription) > 50 || len(spec.Description) < 100 ||
		len(spec.Platforms) != len(platforms) {
		t.Errorf("it says:\n%s", text)
	}
	for i, got := range spec.Platforms {
		checkPlatform(t, got, platforms[i], files)
	}
}

// checkPlatform checks that the manifest leads to the platform's archive, and to the program in it.
func checkPlatform(t *testing.T, got krewPlatform, want Platform, files map[string][]byte) {
	t.Helper()
	address, err := url.Parse(got.URI)
	archive := path.Base(got.URI)
	if err != nil || address.Scheme != "https" || got.SHA256 != fmt.Sprintf("%x", sha256.Sum256(files[archive])) ||
		archive != want.Archive ||
		got.Selector.MatchLabels.OS != want.System || got.Selector.MatchLabels.Arch != want.Architecture {
		t.Errorf("platform %s/%s is %+v", want.System, want.Architecture, got)
	}
	if len(got.Files) != 2 || got.Files[0].From != got.Bin || got.Bin != want.Program ||
		got.Files[1].From != "LICENSE" {
		t.Errorf("files are %+v, of %s", got.Files, got.Bin)
	}
}
