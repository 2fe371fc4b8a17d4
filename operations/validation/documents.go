package validation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/operations/files"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation/gitops"
	"github.com/harrier-ci/harrier/operations/validation/tenants"
)

// The kinds that are checked. kubectl prints several objects as one List; the API server returns a list of their kind.
const (
	setKind    = "AutoscalingRunnerSet"
	listSuffix = "List"
)

// controller has the known facts about the controller that will serve the scale sets.
type controller struct {
	// listeners is its policy for listener pods, which are in its own namespace: the restricted one by default.
	listeners listenertemplate.Policy
	// addresses are those that scale sets may use; nil is as without flags.allowedGitHubURLs.
	addresses *addresses.Policy
	// tenants is its value of that name, nil if that is not known.
	tenants tenants.Entries
	// namespace is that of values, and of objects that name none.
	namespace string
	// classes are the StorageClasses of its cluster, nil if they are not known.
	classes []metav1.PartialObjectMetadata
}

// validated is the result of checking files of YAML documents.
type validated struct {
	controller
	// parent is the chart beside the first file, whose values that file has; empty if there is none.
	parent parent
	// plain are the documents without a kind, which are values.
	plain    []plainDocument
	findings []finding.Finding
	// notes name the entries of tenants that allow something, values that aren't used, and what wasn't checked.
	notes []string
	// checked counts scale sets and values. skipped lists other input.
	checked int
	skipped []string
}

type plainDocument struct {
	place  string
	fields map[string]any
	// settings are those of the command line, which fields has too; nil for a document of a file.
	settings settings
}

// validate checks files of documents, and values that the command line sets. beside is the chart that the first file
// lies in.
func validate(inputs []files.Input, set settings, beside parent, known controller) (*validated, error) {
	if known.addresses == nil {
		var err error
		if known.addresses, err = addresses.New(nil); err != nil {
			return nil, err
		}
	}
	v := &validated{controller: known, parent: beside}
	for _, file := range inputs {
		number := 0
		for document, err := range file.Documents() {
			number++
			place := fmt.Sprintf("document %d", number)
			if len(inputs) > 1 {
				place += " of " + file.Name
			}
			if err != nil {
				return nil, fmt.Errorf("%s %w", place, err)
			}
			if err := v.document(document, place); err != nil {
				return nil, err
			}
		}
	}
	if err := v.overlay(set); err != nil {
		return nil, err
	}
	return v, v.values()
}

func (v *validated) document(document files.Document, place string) error {
	if document.Fields == nil { // comments only
		return nil
	}
	if kind := kindOf(document.Fields); kind != "" {
		return v.object(document.Content, kind, place)
	}
	if err := yaml.UnmarshalStrict(document.Content, &map[string]any{}); err != nil { // a key that comes twice
		v.findings = append(v.findings, finding.Finding{
			Severity: finding.Warning, Object: place, Reason: "InvalidValues", Message: err.Error(),
			Fix: "keep one of the two; Helm takes the last",
		})
	}
	v.plain = append(v.plain, plainDocument{place: place, fields: document.Fields})
	return nil
}

// check adds what a check finds.
func (v *validated) check(object string, check func(*checks)) {
	c := &checks{object: object, controller: v.controller}
	check(c)
	v.checked++
	v.findings, v.notes = append(v.findings, c.findings...), append(v.notes, c.notes...)
}

// kindOf returns the kind of an object, or "" for values.
func kindOf(fields map[string]any) string {
	if fields["kind"] == nil {
		return ""
	}
	return fmt.Sprint(fields["kind"])
}

func (v *validated) object(document []byte, kind, place string) (err error) {
	switch kind {
	case setKind:
		v.check(nameOf(document, place), func(c *checks) { err = c.manifest(document) })
		return err
	case listSuffix, setKind + listSuffix:
		return v.list(document, kind, place)
	}
	read, known := gitops.Readers[kind]
	if !known {
		v.skipped = append(v.skipped, kind)
		return nil
	}
	found, err := read(document)
	if err != nil {
		v.invalid(place, err.Error(), "correct the "+kind)
		return nil
	}
	for _, one := range found {
		if err := v.delivered(kind, &one); err != nil {
			return err
		}
	}
	return nil
}

// nameOf returns the name of a scale set even if everything else in it is wrong. If it has no name, it returns the
// place.
func nameOf(document []byte, place string) string {
	object := &metav1.PartialObjectMetadata{}
	if _ = yaml.Unmarshal(document, object); object.Name == "" {
		return place
	}
	return objectPlace(setKind, object.Namespace, object.Name)
}

// objectPlace names an object in findings. Values and manifests often leave the namespace to a flag.
func objectPlace(kind, namespace, name string) string {
	return strings.TrimSpace(kind + " " + strings.TrimPrefix(namespace+"/"+name, "/"))
}

// list checks the items of a List, or of a list of scale sets.
func (v *validated) list(document []byte, kind, place string) error {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := yaml.UnmarshalStrict(document, &list); err != nil {
		v.invalid(place, err.Error(), "correct the list: it must consist of apiVersion, kind, metadata and items")
		return nil
	}
	for i, item := range list.Items {
		if err := v.item(item, kind, fmt.Sprintf("%s, item %d", place, i+1)); err != nil {
			return err
		}
	}
	return nil
}

// item checks an object of a list. An item without a kind is of the kind that the list's own kind names, if that names
// one.
func (v *validated) item(item []byte, listKind, place string) error {
	var fields map[string]any
	if err := yaml.Unmarshal(item, &fields); err != nil {
		v.invalid(place, err.Error(), "correct the item: it must be an object")
		return nil
	}
	kind := cmp.Or(kindOf(fields), strings.TrimSuffix(listKind, listSuffix))
	if kind == "" {
		v.invalid(place, "the item has no kind", "add apiVersion and kind")
		return nil
	}
	return v.object(item, kind, place)
}

func (v *validated) invalid(place, message, fix string) {
	v.findings = append(v.findings, finding.Finding{
		Severity: finding.Problem,
		Object:   place,
		Reason:   "InvalidManifest",
		Message:  message,
		Fix:      fix,
	})
}
