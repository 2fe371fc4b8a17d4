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

// What krew demands: these fields and no others, a name that kubectl's program has after its prefix, a version with a v, for each platform an
// absolute address, the checksum of what is there, and a program that is among the files.
func TestTheManifestIsAsKrewReadsIt(t *testing.T) {
	files := map[string][]byte{"a-linux.tar.gz": []byte("one"), "a-windows.zip": []byte("two")}
	platforms := []Platform{{"linux", "amd64", "a-linux.tar.gz", "kubectl-harrier"}, {"windows", "arm64", "a-windows.zip", "kubectl-harrier.exe"}}
	var manifest struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Version          string `json:"version"`
			Homepage         string `json:"homepage"`
			ShortDescription string `json:"shortDescription"`
			Description      string `json:"description"`
			Platforms        []struct {
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
			} `json:"platforms"`
		} `json:"spec"`
	}
	text := Krew(product, "https://example.com/v1.2.3/", platforms, files)
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	spec := &manifest.Spec
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" || manifest.Metadata.Name != "harrier" ||
		!regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(spec.Version) || spec.Homepage != "https://example.com/team/product" ||
		len(spec.ShortDescription) == 0 || len(spec.ShortDescription) > 50 || len(spec.Description) < 100 || len(spec.Platforms) != len(platforms) {
		t.Errorf("it says:\n%s", text)
	}
	for i, got := range spec.Platforms {
		address, err := url.Parse(got.URI)
		archive := path.Base(got.URI)
		if err != nil || address.Scheme != "https" || got.SHA256 != fmt.Sprintf("%x", sha256.Sum256(files[archive])) || archive != platforms[i].Archive ||
			got.Selector.MatchLabels.OS != platforms[i].System || got.Selector.MatchLabels.Arch != platforms[i].Architecture {
			t.Errorf("platform %d is %+v", i, got)
		}
		if len(got.Files) != 2 || got.Files[0].From != got.Bin || got.Bin != platforms[i].Program || got.Files[1].From != "LICENSE" {
			t.Errorf("files of platform %d are %+v, of %s", i, got.Files, got.Bin)
		}
	}
}
