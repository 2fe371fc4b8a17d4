package legacy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/harrier-ci/harrier/operations/convert/remarks"
)

// Fields are those of an object, or of a part of one, that nobody has taken yet. A field that is taken becomes a value
// or is named in the report. The fields that are left in the end are in Untaken, so that no field is lost in silence.
type Fields struct {
	path   string
	left   map[string]any
	opened []*Fields
	notes  *remarks.Notes
}

// NewFields returns all fields of an object, which stays as it is. What has the wrong type is noted.
func NewFields(object map[string]any, notes *remarks.Notes) *Fields {
	return &Fields{left: maps.Clone(object), notes: notes}
}

// Path returns the path of a field: spec.template.spec.labels.
func (f *Fields) Path(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// Place returns the path of the part itself.
func (f *Fields) Place() string { return f.path }

// Has reports whether a field is there, and is neither null nor taken.
func (f *Fields) Has(key string) bool { return f.left[key] != nil }

// Peek returns a field without taking it.
func (f *Fields) Peek(key string) any { return f.left[key] }

// Any takes a field of any type; nil if there is none.
func (f *Fields) Any(key string) any {
	value := f.left[key]
	delete(f.left, key)
	return value
}

// Object opens a part of the object, whose fields are taken from what is returned: of none, if it isn't there.
func (f *Fields) Object(key string) *Fields {
	for _, opened := range f.opened {
		if opened.path == f.Path(key) {
			return opened
		}
	}
	part := &Fields{path: f.Path(key), left: map[string]any{}, notes: f.notes}
	if value := f.Any(key); value != nil {
		fields, ok := value.(map[string]any)
		if !ok {
			f.invalid(key, "an object")
		}
		part.left = maps.Clone(fields)
	}
	if part.left == nil {
		part.left = map[string]any{}
	}
	f.opened = append(f.opened, part)
	return part
}

// Objects opens each entry of a list of objects.
func (f *Fields) Objects(key string) (parts []*Fields) {
	for i, entry := range f.List(key) {
		place := fmt.Sprintf("%s[%d]", key, i)
		fields, ok := entry.(map[string]any)
		if !ok {
			f.invalid(place, "an object")
			continue
		}
		part := &Fields{path: f.Path(place), left: maps.Clone(fields), notes: f.notes}
		f.opened, parts = append(f.opened, part), append(parts, part)
	}
	return parts
}

// List takes a list; nil if there is none.
func (f *Fields) List(key string) []any {
	value := f.Any(key)
	list, ok := value.([]any)
	if value != nil && !ok {
		f.invalid(key, "a list")
	}
	return list
}

// Text takes a string; "" if there is none. A number or a truth value is a string without its quotes.
func (f *Fields) Text(key string) string {
	value := f.Any(key)
	text, ok := scalar(value)
	if value != nil && !ok {
		f.invalid(key, "a string")
	}
	return text
}

// Texts takes a list of strings.
func (f *Fields) Texts(key string) (texts []string) {
	for i, entry := range f.List(key) {
		text, ok := scalar(entry)
		if !ok {
			f.invalid(fmt.Sprintf("%s[%d]", key, i), "a string")
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// scalar returns a string, or a number or a truth value as YAML writes it.
func scalar(value any) (text string, is bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), true
	}
	return "", false
}

// Count takes a whole number from 0 to the largest int32; nil if there is none.
func (f *Fields) Count(key string) *int {
	value := f.Any(key)
	if value == nil {
		return nil
	}
	number, ok := value.(float64)
	if !ok || number < 0 || number > math.MaxInt32 || number != math.Trunc(number) {
		f.invalid(key, "a whole number that is not negative")
		return nil
	}
	count := int(number)
	return &count
}

// Flag takes a truth value, with the one that holds without it.
func (f *Fields) Flag(key string, otherwise bool) bool {
	value := f.Any(key)
	flag, ok := value.(bool)
	if value != nil && !ok {
		f.invalid(key, "true or false")
	}
	if !ok {
		return otherwise
	}
	return flag
}

// NotNeeded takes fields for which there is nothing left to do, and notes the reason if any of them is there.
func (f *Fields) NotNeeded(why string, keys ...string) {
	if paths := f.Present(keys...); len(paths) > 0 {
		for _, key := range keys {
			f.Any(key)
		}
		f.notes.NotNeeded(why, paths...)
	}
}

// Drop takes everything that is left. The caller notes the reason.
func (f *Fields) Drop() { f.left, f.opened = map[string]any{}, nil }

// Present returns the paths of those of the fields that are there.
func (f *Fields) Present(keys ...string) (paths []string) {
	for _, key := range keys {
		if f.Has(key) {
			paths = append(paths, f.Path(key))
		}
	}
	return paths
}

// Keys returns the fields that nobody has taken, in order.
func (f *Fields) Keys() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.left)), func(key string) bool { return f.left[key] == nil })
}

// Untaken returns the paths of the fields that nobody has taken, in this part and those opened below it.
func (f *Fields) Untaken() (paths []string) {
	paths = f.Present(f.Keys()...)
	for _, part := range f.opened {
		paths = append(paths, part.Untaken()...)
	}
	return paths
}

func (f *Fields) invalid(key, wanted string) {
	f.notes.NeedsHand("InvalidField", "it is not "+wanted+", and is left out",
		remarks.Advice{Whose: remarks.Installer, Fix: "correct it and convert again"}, f.Path(key))
}
