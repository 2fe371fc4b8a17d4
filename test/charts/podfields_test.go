package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// openSchema is the part of a JSON schema about allowed keys.
type openSchema struct {
	Properties        map[string]openSchema `json:"properties"`
	PatternProperties map[string]openSchema `json:"patternProperties"`
	Items             *openSchema           `json:"items"`
}

// The schema takes exactly the fields of pods and containers in the API of our CRDs: that API drops unknown fields, and
// some versions of Helm don't warn.
func TestPodFieldsInSchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(scaleSet.directory(), "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct{ Template, ListenerTemplate openSchema }
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for _, template := range []openSchema{schema.Properties.Template, schema.Properties.ListenerTemplate} {
		pod := template.Properties["spec"]
		check(t, "pod", keys(pod), jsonFields[corev1.PodSpec]())
		for _, list := range []string{"containers", "initContainers"} {
			if items := pod.Properties[list].Items; items != nil {
				check(t, list, keys(*items), jsonFields[corev1.Container]())
			}
		}
	}
}

// keys returns the keys of the schema's only pattern, ^(a|b)$.
func keys(s openSchema) []string {
	for pattern := range s.PatternProperties {
		return strings.Split(strings.TrimSuffix(strings.TrimPrefix(pattern, "^("), ")$"), "|")
	}
	return nil
}

// jsonFields returns the names of the type's fields in JSON, sorted.
func jsonFields[T any]() []string {
	var result []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		result = append(result, name)
	}
	slices.Sort(result)
	return result
}
