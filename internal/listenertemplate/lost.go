package listenertemplate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// notListed is the reason against a field that the policy doesn't know.
const notListed = "listener pods can't have this under the restricted policy"

// mergeKeys are the fields by which elements of lists are told apart, by the list's name.
var mergeKeys = map[string]string{
	"containers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath",
}

// addLost adds a refusal for everything in the given template that is missing in what was kept and has no refusal yet.
func (r *review) addLost(given, kept *corev1.PodTemplateSpec) {
	if given == nil {
		return
	}
	tree := func(template *corev1.PodTemplateSpec) map[string]any {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
		if err != nil { // only a type that isn't Kubernetes' own makes it fail
			panic(fmt.Sprintf("convert a pod template: %v", err))
		}
		return fields
	}
	explained := make([]string, 0, len(r.refused.First))
	for _, refusal := range r.refused.First {
		explained = append(explained, refusal.Path)
	}
	slices.Sort(explained)
	l := lost{review: r, explained: explained}
	l.fields("", tree(given), tree(kept))
}

// lost looks for what a template has lost.
type lost struct {
	review *review
	// explained are the paths that were refused for a reason of their own, sorted.
	explained []string
}

// fields compares the fields of an object. kept may be nil.
func (l *lost) fields(path string, given, kept map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field := name
		if path != "" {
			field = path + "." + name
		}
		l.value(field, name, given[name], kept[name])
	}
}

// value compares the values of a field of that name.
func (l *lost) value(path, name string, given, kept any) {
	if isEmpty(given) || reflect.DeepEqual(given, kept) || l.isExplained(path) {
		return
	}
	if path == "metadata.labels" || path == "metadata.annotations" {
		return // each key that is missing was refused for a reason
	}
	if key, ok := mergeKeys[name]; ok {
		l.elements(path, key, given, kept)
		return
	}
	fields, isObject := given.(map[string]any)
	left, _ := kept.(map[string]any)
	switch {
	case isObject && left != nil:
		l.fields(path, fields, left)
	case !l.isExplainedBelow(path):
		l.review.refuse(path, notListed)
	}
}

// elements compares the elements of lists by their key. Each field of a missing element has its own path, so that it
// shows what kind of volume was refused.
func (l *lost) elements(path, key string, given, kept any) {
	left := map[any]map[string]any{}
	keptList, _ := kept.([]any)
	for _, item := range keptList {
		if fields, ok := item.(map[string]any); ok {
			left[fields[key]] = fields
		}
	}
	givenList, _ := given.([]any)
	for _, item := range givenList {
		fields, _ := item.(map[string]any)
		name, _ := fields[key].(string)
		place := element(path, name)
		if l.isExplained(place) || (left[fields[key]] == nil && l.isExplainedBelow(place)) {
			continue
		}
		rest := maps.Clone(fields)
		delete(rest, key)
		l.fields(place, rest, left[fields[key]])
	}
}

func (l *lost) isExplained(path string) bool {
	_, found := slices.BinarySearch(l.explained, path)
	return found
}

// isExplainedBelow reports whether a part of what is at the path was refused for a reason of its own.
func (l *lost) isExplainedBelow(path string) bool {
	for _, next := range []string{path + ".", path + "["} {
		i, _ := slices.BinarySearch(l.explained, next)
		if i < len(l.explained) && strings.HasPrefix(l.explained[i], next) {
			return true
		}
	}
	return false
}

// isEmpty reports whether a value is that of an unset field, since some fields are written in any case.
func isEmpty(value any) bool {
	list, isList := value.([]any)
	return value == nil || (isList && len(list) == 0)
}
