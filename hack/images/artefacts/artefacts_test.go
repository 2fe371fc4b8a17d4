package artefacts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var product = Product{Name: "example.com/team/product", Version: "1.2.3", Commit: "abc"}

func write(t *testing.T, directory, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func chart(t *testing.T, definition string) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "sample")
	if err := os.MkdirAll(filepath.Join(directory, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, directory, "Chart.yaml", definition)
	write(t, directory, ".helmignore", "*.bak\n")
	write(t, directory, "templates/a.yaml", "a: b\n")
	return directory
}

func TestAChartIsPackedWithItsVersion(t *testing.T) {
	var archives [][]byte
	for range 2 {
		files, err := Chart(chart(t, "name: sample\nversion: \"0.1.0\"\nappVersion: 0.1.0\n"+
			"    - image: other/image:0.1.0\n      image: example.com/gha-runner-scale-set-controller:0.1.0\n"), "1.2.3-rc.1")
		if err != nil {
			t.Fatal(err)
		}
		var archive bytes.Buffer
		if err := files.TarGzip(&archive); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive.Bytes())
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same content differ")
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archives[0]))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		content, _ := io.ReadAll(reader)
		if want := "name: sample\nversion: \"1.2.3-rc.1\"\nappVersion: " +
			"\"1.2.3-rc.1\"\n    - image: other/image:0.1.0\n      image: example.com/gha-runner-scale-set-controller:1.2.3-rc.1\n"; header.Name == "sample/Chart.yaml" && string(content) != want {
			t.Errorf("the definition is %q, want %q", content, want)
		}
	}
	if want := []string{"sample/Chart.yaml", "sample/templates/a.yaml"}; !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
}

func TestWhatCannotBeAChartIsRefused(t *testing.T) {
	for _, definition := range []string{"name: sample\n", "version: 1\nversion: 2\nappVersion: 3\n", "version: 1\n"} {
		if _, err := Chart(chart(t, definition), "1.2.3"); err == nil {
			t.Errorf("%q was packed", definition)
		}
	}
	directory := chart(t, "version: 1\nappVersion: 1\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(directory, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Chart(directory, "1.2.3"); err == nil || !strings.Contains(err.Error(), "link is no regular file") {
		t.Errorf("a link was packed: %v", err)
	}
}

// compiled returns a program with modules: the builder of images.
func compiled(t *testing.T) []byte {
	t.Helper()
	program := filepath.Join(t.TempDir(), "images")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "..").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestTheBillOfMaterialsHasEachModuleOnce(t *testing.T) {
	program := compiled(t)
	text, err := Materials(product, map[string][]byte{"a": program, "b": program})
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct {
			Name, Version, PURL string
			Properties          []struct{ Name, Value string }
		}
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || bill.Metadata.Component.Name != product.Name ||
		bill.Metadata.Component.Version != "1.2.3" {
		t.Errorf("it is a %s of %+v", bill.BOMFormat, bill.Metadata.Component)
	}
	found := map[string]int{}
	for _, component := range bill.Components {
		found[component.Name]++
		if component.Name != "stdlib" && (len(component.Properties) != 1 ||
			!strings.HasPrefix(component.Properties[0].Value, "h1:")) {
			t.Errorf("%s has no checksum: %+v", component.PURL, component.Properties)
		}
	}
	if found["stdlib"] != 1 || found["github.com/CycloneDX/cyclonedx-go"] != 1 {
		t.Errorf("components are %v", found)
	}
	if again, err := Materials(product, map[string][]byte{"b": program, "a": program}); err != nil ||
		!bytes.Equal(again, text) {
		t.Errorf("the same programs give another bill of materials; %v", err)
	}
}

func TestAScriptHasNoBillOfMaterials(t *testing.T) {
	if _, err := Materials(product, map[string][]byte{"script": []byte("#!/bin/sh\n")}); err == nil ||
		!strings.Contains(err.Error(), "script") {
		t.Errorf("a script has a bill of materials: %v", err)
	}
}

func TestProvenanceNamesCommitAndCompiler(t *testing.T) {
	text, err := Provenance(product, "go1.26.1")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		BuildDefinition struct {
			ResolvedDependencies []struct {
				URI    string
				Digest map[string]string
			}
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	from := got.BuildDefinition.ResolvedDependencies
	if len(from) != 2 || from[0].Digest["gitCommit"] != "abc" || from[1].URI != "pkg:generic/go@1.26.1" {
		t.Errorf("it is made of %+v", from)
	}
}

func TestChecksums(t *testing.T) {
	const ofA = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" // printf a | sha256sum
	got := string(Checksums(map[string][]byte{"b.tgz": []byte("a"), "a.tgz": []byte("a")}))
	if want := ofA + "  a.tgz\n" + ofA + "  b.tgz\n"; got != want {
		t.Errorf("checksums are %q, want %q", got, want)
	}
}

func TestNotes(t *testing.T) {
	first := string(Notes(product, "registry.example.com/team/image", "sha256:1", History{}))
	for _, part := range []string{"# Harrier 1.2.3", "registry.example.com/team/image:1.2.3@sha256:1",
		"oci://registry.example.com/team/charts/gha-runner-scale-set ", "first release"} {
		if !strings.Contains(first, part) {
			t.Errorf("want %q in:\n%s", part, first)
		}
	}
	later := string(Notes(product, "registry.example.com/team/image", "sha256:1",
		History{Former: "v1.2.2", Commits: []string{"b: c"}, Upgrade: []string{"- new"}}))
	for _, part := range []string{"Changes since v1.2.2\n\n- b: c\n", "docs/changelog.md since v1.2.2:\n\n- new\n"} {
		if !strings.Contains(later, part) {
			t.Errorf("want %q in:\n%s", part, later)
		}
	}
	if strings.Contains(later, "first release") {
		t.Error("a later release is called the first")
	}
}
