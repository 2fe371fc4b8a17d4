package charts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// definition is what Artifact Hub reads of a Chart.yaml.
type definition struct {
	AppVersion  string            `json:"appVersion"`
	Icon        string            `json:"icon"`
	Annotations map[string]string `json:"annotations"`
}

// annotation reads one that is a list, and fails for a field that Artifact Hub doesn't know.
func annotation[E any](t *testing.T, d definition, name string) (list []E) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(d.Annotations["artifacthub.io/"+name]), &list); err != nil || len(list) == 0 {
		t.Errorf("%s has %d elements; %v", name, len(list), err)
	}
	return list
}

func definitionOf(t *testing.T, chart string) (d definition) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "charts", chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// checkFile fails unless an address is that of a file in this tree.
func checkFile(t *testing.T, address string) {
	t.Helper()
	for _, prefix := range []string{"https://raw.githubusercontent.com/harrier-ci/harrier/main/", "https://github.com/harrier-ci/harrier/blob/main/"} {
		if path, ok := strings.CutPrefix(address, prefix); ok {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Error(err)
			}
			return
		}
	}
	check(t, "address", address, "https://github.com/harrier-ci/harrier/issues")
}

type link struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

func TestWhatArtifactHubShows(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gha-runner-scale-set-controller", "gha-runner-scale-set"} {
		d := definitionOf(t, name)
		checkFile(t, d.Icon)
		check(t, "licence", d.Annotations["artifacthub.io/license"], "Apache-2.0")
		for _, screenshot := range annotation[struct {
			Title string `json:"title"`
			URL   string `json:"url"`
		}](t, d, "screenshots") {
			checkFile(t, screenshot.URL)
		}
		for _, one := range annotation[link](t, d, "links") {
			checkFile(t, one.URL)
		}
		for _, change := range annotation[struct {
			Kind        string `json:"kind"`
			Description string `json:"description"`
			Links       []link `json:"links"`
		}](t, d, "changes") {
			check(t, "kind of "+change.Description,
				slices.Contains([]string{"added", "changed", "deprecated", "removed", "fixed", "security"}, change.Kind), true)
		}
	}
}

func TestWhatArtifactHubShowsOfTheController(t *testing.T) {
	t.Parallel()
	d := definitionOf(t, "gha-runner-scale-set-controller")
	var want, got []string
	files, err := filepath.Glob(filepath.Join(root, "apis", "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := decode[apiextensionsv1.CustomResourceDefinition](t, string(content))
		want = append(want, crd.Name+" "+crd.Spec.Names.Kind+" "+crd.Spec.Versions[0].Name)
	}
	for _, crd := range annotation[struct {
		Kind        string `json:"kind"`
		Version     string `json:"version"`
		Name        string `json:"name"`
		DisplayName string `json:"displayName"`
		Description string `json:"description"`
	}](t, d, "crds") {
		got = append(got, crd.Name+" "+crd.Kind+" "+crd.Version)
	}
	slices.Sort(want)
	slices.Sort(got)
	check(t, "kinds", strings.Join(got, "\n"), strings.Join(want, "\n"))
	for _, example := range annotation[v1alpha1.AutoscalingRunnerSet](t, d, "crdsExamples") {
		check(t, "kind of the example", example.Kind, "AutoscalingRunnerSet")
	}
	images := annotation[struct {
		Name      string   `json:"name"`
		Image     string   `json:"image"`
		Platforms []string `json:"platforms"`
	}](t, d, "images")
	check(t, "image", images[0].Image, "ghcr.io/harrier-ci/gha-runner-scale-set-controller:"+d.AppVersion)
}
