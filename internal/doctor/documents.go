package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// The kinds that are checked. kubectl prints several objects as one List; the API server returns a list of their kind.
const (
	setKind    = "AutoscalingRunnerSet"
	listSuffix = "List"
)

// ErrNothingChecked says that the input has neither values nor a scale set.
var ErrNothingChecked = errors.New("nothing was checked")

// controller is what is known of the controller that will serve the scale sets.
type controller struct {
	// listeners is what it lets through for its own namespace: by default, what the restricted policy does.
	listeners listenertemplate.Policy
	// addresses says which addresses scale sets may use; nil is as without flags.allowedGitHubURLs.
	addresses *addresses.Policy
	// admission is nil if its value tenants is not known.
	admission *admission
}

// validation is the result of checking a file of YAML documents.
type validation struct {
	controller
	// replaced has keys of ARC's experimental chart with what the chart has instead.
	replaced map[string]string
	findings []Finding
	// notes say which entries of tenants allow what, and which values aren't used.
	notes []string
	// checked counts scale sets and their values. skipped lists the kinds of the other objects, and the controller's values.
	checked int
	skipped []string
}

// Validate checks a file of YAML documents before they are applied: AutoscalingRunnerSets, including those in a List, and
// documents without a kind, as values of the chart gha-runner-scale-set. It skips other kinds, and fails if the file is not YAML. The
// manager is taken to have the restricted policy for listener pods, and no flags.allowedGitHubURLs.
func Validate(content []byte) ([]Finding, error) {
	return ValidateFor(content, nil, "")
}

// ValidateFor also checks what the value tenants in values of the controller's chart allows. namespace is that of values, and of
// objects that name none.
func ValidateFor(content, controllerValues []byte, namespace string) ([]Finding, error) {
	entries, err := readTenants(controllerValues)
	if err != nil {
		return nil, err
	}
	v, err := validate(content, controller{admission: &admission{tenants: entries, namespace: namespace}})
	if err != nil {
		return nil, err
	}
	return v.findings, nil
}

func validate(content []byte, known controller) (*validation, error) {
	if known.addresses == nil {
		var err error
		if known.addresses, err = addresses.New(nil); err != nil {
			return nil, err
		}
	}
	replaced, err := charts.ExperimentalKeys("gha-runner-scale-set")
	if err != nil {
		return nil, err
	}
	v := &validation{controller: known, replaced: replaced}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return v, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read document %d: %w", number, err)
		}
		if err := v.document(document, fmt.Sprintf("document %d", number)); err != nil {
			return nil, fmt.Errorf("document %d is not YAML: %w", number, err)
		}
	}
}

func (v *validation) document(document []byte, place string) error {
	var fields map[string]any
	if err := yaml.Unmarshal(document, &fields); err != nil || fields == nil { // nil: comments only
		return err
	}
	if kind := kindOf(fields); kind != "" {
		v.object(document, kind, place)
		return nil
	}
	if ofController(fields) {
		v.skipped = append(v.skipped, "values of the chart gha-runner-scale-set-controller")
		return nil
	}
	v.check(place, func(c *checks) { c.values(document, fields) })
	return nil
}

// check adds what a check finds.
func (v *validation) check(object string, check func(*checks)) {
	c := &checks{object: object, controller: v.controller, replaced: v.replaced}
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

func (v *validation) object(document []byte, kind, place string) {
	switch kind {
	case setKind:
		v.check(nameOf(document, place), func(c *checks) { c.set(document) })
	case listSuffix, setKind + listSuffix:
		v.list(document, kind, place)
	default:
		v.skipped = append(v.skipped, kind)
	}
}

// list checks the items of a List, or of a list of scale sets.
func (v *validation) list(document []byte, kind, place string) {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := yaml.UnmarshalStrict(document, &list); err != nil {
		v.invalid(place, err.Error(), "correct the list: it must consist of apiVersion, kind, metadata and items")
		return
	}
	for i, item := range list.Items {
		v.item(item, kind, fmt.Sprintf("%s, item %d", place, i+1))
	}
}

// item checks an object of a list. An item without a kind is of the kind that the list's own kind names, if that names one.
func (v *validation) item(item []byte, listKind, place string) {
	var fields map[string]any
	if err := yaml.Unmarshal(item, &fields); err != nil {
		v.invalid(place, err.Error(), "correct the item: it must be an object")
		return
	}
	kind := cmp.Or(kindOf(fields), strings.TrimSuffix(listKind, listSuffix))
	if kind == "" {
		v.invalid(place, "the item has no kind", "add apiVersion and kind")
		return
	}
	v.object(item, kind, place)
}

func (v *validation) invalid(place, message, fix string) {
	v.findings = append(v.findings, Finding{Severity: Problem, Object: place, Reason: "InvalidManifest", Message: message, Fix: fix})
}

// report writes what is wrong with a file. It fails with ErrProblems if anything is, other than what may be meant so, and with
// ErrNothingChecked if nothing was checked: a wrong file or an empty pipe must not pass as valid.
func (v *validation) report(output io.Writer, file string) error {
	for _, finding := range v.findings {
		fmt.Fprintf(output, "%s: %s: %s: %s\n   To do: %s\n", file, finding.Object, finding.Reason, finding.Message, finding.Fix)
	}
	for _, note := range v.notes {
		fmt.Fprintf(output, "%s: %s.\n", file, note)
	}
	switch {
	case slices.ContainsFunc(v.findings, func(f Finding) bool { return f.Severity == Problem }):
		return ErrProblems
	case len(v.findings) > 0:
		return nil
	case v.checked == 0:
		return fmt.Errorf("%w: %s has %s; pass values of the chart gha-runner-scale-set, or %ss, possibly in a %s",
			ErrNothingChecked, file, v.others(), setKind, listSuffix)
	}
	_, err := fmt.Fprintf(output, "Nothing is wrong in %s.\n", file)
	return err
}

// others describes what the file has instead of values and scale sets.
func (v *validation) others() string {
	if len(v.skipped) == 0 {
		return "no values and no object"
	}
	slices.Sort(v.skipped)
	return "only content that is not checked: " + strings.Join(slices.Compact(v.skipped), ", ")
}
