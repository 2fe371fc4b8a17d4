package dryrun

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/charts"
)

// step is a key in a path, or an index with its brackets.
var step = regexp.MustCompile(`\[[^\]]*\]|[^.\[\]]+`)

// Locate returns the path in values that corresponds to a path in an object rendered by a chart: the one with the
// longest common end. Indices count little, as a chart may put containers of its own before others. If the last steps
// of the path are nowhere in the values, because a field is missing, Locate looks for the other steps. Of several
// values the first win over the others: Locate takes the first with the longest common end. It returns "" for a path
// that doesn't come from the values.
func Locate(path string, all ...map[string]any) string {
	steps := step.FindAllString(path, -1)
	for end := len(steps); end > 0; end-- {
		least := 2 // one word alone may be anywhere
		if end == len(steps) {
			least = 1
		}
		for _, values := range all {
			if found := nearest(values, steps[:end]); found.length >= least {
				return joinSteps(append(found.steps, steps[end:]...))
			}
		}
	}
	return ""
}

// place is a path in values with the length of its common end with a path in an object, and the number of equal indices
// in that end.
type place struct {
	steps           []string
	length, indices int
}

func nearest(values any, wanted []string) (best place) {
	visit(values, nil, func(at []string, _ any) {
		length, indices := commonEnd(at, wanted)
		if length > best.length || (length == best.length && indices > best.indices) {
			best = place{slices.Clone(at), length, indices}
		}
	})
	return best
}

// visit calls found with every value and its path, in the order of their keys.
func visit(value any, at []string, found func(at []string, value any)) {
	if len(at) > 0 {
		found(at, value)
	}
	switch given := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(given)) {
			visit(given[key], append(at, key), found)
		}
	case []any:
		for i, part := range given {
			visit(part, append(at, fmt.Sprintf("[%d]", i)), found)
		}
	}
}

func commonEnd(a, b []string) (length, indices int) {
	for length < len(a) && length < len(b) {
		x, y := a[len(a)-1-length], b[len(b)-1-length]
		switch {
		case x == y && x[0] == '[':
			indices++
		case x != y && (x == "" || x[0] != '[' || y[0] != '['):
			return length, indices
		}
		length++
	}
	return length, indices
}

func joinSteps(steps []string) string {
	return strings.TrimPrefix(strings.ReplaceAll("."+strings.Join(steps, "."), ".[", "["), ".")
}

// podPart is a part of a pod template that people mistake for another one, with its fields.
type podPart struct {
	path   string
	fields []string
}

// podParts returns the parts of a pod template, and those parts for which the controller's values have names of their
// own.
var podParts = sync.OnceValues(func() (template, controller []podPart) {
	ofPod, ofContainer := FieldNames(reflect.TypeFor[corev1.PodSecurityContext]()),
		FieldNames(reflect.TypeFor[corev1.SecurityContext]())
	resources := FieldNames(reflect.TypeFor[corev1.ResourceRequirements]())
	template = []podPart{
		{"metadata", []string{"labels", "annotations"}},
		{"spec", FieldNames(reflect.TypeFor[corev1.PodSpec]())},
		{"spec.securityContext", ofPod},
		{"spec.containers[]", FieldNames(reflect.TypeFor[corev1.Container]())},
		{"spec.containers[].securityContext", ofContainer},
		{"spec.containers[].resources", resources},
	}
	return template, []podPart{{"podSecurityContext", ofPod}, {"securityContext", ofContainer}, {"resources", resources}}
})

// FieldNames returns the names that the fields of a type of the API have in JSON.
func FieldNames(of reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// podTemplate matches a path up to the end of a pod template, in objects and in values.
var podTemplate = regexp.MustCompile(`^(.*?[tT]emplate)(\.|$)`)

// Belongs returns the right places of a field that doesn't exist at its path, in a pod template or in values of a
// chart; "" if it belongs nowhere. The chart is "" for an object.
func Belongs(chart, path string) string {
	steps := step.FindAllString(path, -1)
	if len(steps) == 0 {
		return ""
	}
	parts, ofController := podParts()
	template := "template."
	if found := podTemplate.FindStringSubmatch(path); found != nil {
		template = found[1] + "."
	} else if chart == charts.Controller {
		parts, template = ofController, ""
	}
	field := steps[len(steps)-1]
	var places []string
	for _, part := range parts {
		if slices.Contains(part.fields, field) {
			places = append(places, template+part.path+"."+field)
		}
	}
	return strings.Join(places, " or ")
}
