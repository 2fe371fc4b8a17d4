package artefacts

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// packageURL follows the specification of package URLs for Go: lower case, and nothing but unreserved characters in a
// version.
var packageURL = regexp.MustCompile(`^pkg:golang/[a-z0-9.~_-]+(/[a-z0-9.~_-]+)*@([A-Za-z0-9.~_-]|%2B)+$`)

// CycloneDX's schema demands: no unknown field, a version that fits the named schema, no reference for two components.
func TestTheBillOfMaterialsIsAsItsSchemaSays(t *testing.T) {
	text, err := Materials(product, map[string][]byte{"a": compiled(t)})
	if err != nil {
		t.Fatal(err)
	}
	var bill cyclonedx.BOM
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&bill); err != nil {
		t.Fatal(err)
	}
	if want := "http://cyclonedx.org/schema/bom-" + bill.SpecVersion.String() +
		".schema.json"; bill.JSONSchema != want ||
		bill.Version < 1 {
		t.Errorf("it is version %d of a bill by %s, want %s", bill.Version, bill.JSONSchema, want)
	}
	references := map[string]bool{}
	for _, component := range append(*bill.Components, *bill.Metadata.Component) {
		if references[component.BOMRef] || component.BOMRef == "" {
			t.Errorf("%q is there twice", component.BOMRef)
		}
		references[component.BOMRef] = true
		if !packageURL.MatchString(component.PackageURL) {
			t.Errorf("%s is no package URL", component.PackageURL)
		}
		kinds := []cyclonedx.ComponentType{cyclonedx.ComponentTypeApplication, cyclonedx.ComponentTypeLibrary}
		if component.Name == "" || component.Version == "" || !slices.Contains(kinds, component.Type) {
			t.Errorf("it has a %s %q %s", component.Type, component.Name, component.Version)
		}
	}
}

// What the specification of SLSA's provenance demands: these fields and no others, absolute URIs, digests as long as
// their algorithm's.
func TestProvenanceIsAsItsSchemaSays(t *testing.T) {
	commit := Product{Name: product.Name, Version: product.Version, Commit: strings.Repeat("0a", 20)}
	text, err := Provenance(commit, "go1.26.1")
	if err != nil {
		t.Fatal(err)
	}
	var predicate map[string]any
	if err := json.Unmarshal(text, &predicate); err != nil {
		t.Fatal(err)
	}
	s := schema{t}
	s.object("predicate", predicate, "buildDefinition", "runDetails")
	definition, details := predicate["buildDefinition"].(map[string]any), predicate["runDetails"].(map[string]any)
	s.object("buildDefinition", definition, "buildType", "externalParameters", "resolvedDependencies")
	s.object("runDetails", details, "builder")
	builder := details["builder"].(map[string]any)
	s.object("builder", builder, "id")
	s.uri(definition["buildType"])
	s.uri(builder["id"])
	for _, from := range definition["resolvedDependencies"].([]any) {
		dependency := from.(map[string]any)
		s.uri(dependency["uri"])
		if digest, has := dependency["digest"]; has {
			s.digest(digest)
		}
	}
}

type schema struct{ t *testing.T }

func (s schema) object(what string, object map[string]any, fields ...string) {
	s.t.Helper()
	for _, field := range fields {
		if object[field] == nil {
			s.t.Errorf("%s has no %s", what, field)
		}
	}
	if len(object) != len(fields) {
		s.t.Errorf("%s has %v, want %v", what, object, fields)
	}
}

func (s schema) uri(value any) {
	s.t.Helper()
	if text, ok := value.(string); !ok {
		s.t.Errorf("%v is no URI", value)
	} else if parsed, err := url.Parse(text); err != nil || !parsed.IsAbs() {
		s.t.Errorf("%s is no absolute URI: %v", text, err)
	}
}

func (s schema) digest(value any) {
	s.t.Helper()
	length := map[string]string{"sha256": "64", "gitCommit": "40"}
	for algorithm, digits := range value.(map[string]any) {
		if !regexp.MustCompile("^[0-9a-f]{" + length[algorithm] + "}$").MatchString(digits.(string)) {
			s.t.Errorf("%s is no %s", digits, algorithm)
		}
	}
}
