package informer

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// annotationUnreadable is on an object in memory that could not be read as a whole, and has the cause. It is never
// written.
const annotationUnreadable = "actions.github.com/unreadable"

// At most longestCause bytes of a decoder's error are quoted. Some errors repeat the value.
const longestCause = 500

// UnreadableError reports that the API server holds an object that Go can't decode.
type UnreadableError struct {
	// Kind, Namespace and Name are the object's.
	Kind, Namespace, Name string
	// Cause is the decoder's error.
	Cause string
}

// Error names the object, the cause and the next step.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("%s %s/%s can't be read: %s; correct the field with kubectl edit, or delete the object. It is "+
		"left as it is until then",
		e.Kind, e.Namespace, e.Name, e.Cause)
}

// mender makes objects decodable. Of an object that Go can't decode it replaces the smallest fields that can't be read
// by their last readable values, or drops them. So the object itself is still there to be counted.
type mender struct {
	// empty returns a new object of the kind.
	empty func() any
	// last returns the last readable state of the object.
	last func(key string) (any, bool)

	mu sync.Mutex
	// said has the causes that were logged, by NAMESPACE/NAME.
	said map[string]string
}

func newMender(object runtime.Object, last func(key string) (any, bool)) *mender {
	kind := reflect.TypeOf(object).Elem()
	empty := func() any { return reflect.New(kind).Interface() }
	return &mender{empty: empty, last: last, said: map[string]string{}}
}

// list returns the content of a list with items that can be decoded.
func (m *mender) list(ctx context.Context, content []byte) []byte {
	whole, items := map[string]json.RawMessage{}, []json.RawMessage{}
	if json.Unmarshal(content, &whole) != nil || json.Unmarshal(whole["items"], &items) != nil {
		return content
	}
	for i := range items {
		items[i] = m.object(ctx, items[i])
	}
	return encoded(whole, "items", items, content)
}

// event returns a line of a watch with an object that can be decoded.
func (m *mender) event(ctx context.Context, line []byte) []byte {
	whole := map[string]json.RawMessage{}
	if json.Unmarshal(line, &whole) != nil {
		return line
	}
	switch string(whole["type"]) {
	case `"ADDED"`, `"MODIFIED"`, `"DELETED"`:
		return append(encoded(whole, "object", m.object(ctx, whole["object"]), line), '\n')
	default: // a bookmark, or an error
		return line
	}
}

// encoded returns whole with a new value of the field, or before if that can't be encoded.
func encoded(whole map[string]json.RawMessage, field string, value any, before []byte) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		return before
	}
	whole[field] = content
	if content, err = json.Marshal(whole); err != nil {
		return before
	}
	return content
}

// object returns the object itself if it can be decoded, or what can be read of it.
func (m *mender) object(ctx context.Context, content json.RawMessage) json.RawMessage {
	cause := m.cause(content)
	m.logCause(ctx, content, cause)
	if cause == nil {
		return content
	}
	return m.mended(content, cause)
}

// mended returns the readable part of an object, with the annotation.
func (m *mender) mended(content []byte, cause *UnreadableError) json.RawMessage {
	fields := map[string]any{}
	if utiljson.Unmarshal(content, &fields) != nil {
		return content
	}
	m.mend(fields, m.known(cause.Namespace+"/"+cause.Name), nil)
	if err := unstructured.SetNestedField(
		fields, cause.Cause, "metadata", "annotations", annotationUnreadable,
	); err != nil {
		return content
	}
	mended, err := json.Marshal(fields)
	if err != nil {
		return content
	}
	return mended
}

// cause returns the error for which the object can't be decoded, nil if it can.
func (m *mender) cause(content []byte) *UnreadableError {
	err := utiljson.Unmarshal(content, m.empty())
	if err == nil {
		return nil
	}
	known := metav1.PartialObjectMetadata{}
	_ = utiljson.Unmarshal(content, &known) // the API server stores no object with invalid metadata
	text := err.Error()
	return &UnreadableError{
		Kind:      known.Kind,
		Namespace: known.Namespace,
		Name:      known.Name,
		Cause:     text[:min(len(text), longestCause)],
	}
}

// logCause logs an object that can't be read: a single time, and again if the cause changes.
func (m *mender) logCause(ctx context.Context, content []byte, cause *UnreadableError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cause == nil {
		m.forget(content)
		return
	}
	key := cause.Namespace + "/" + cause.Name
	if m.said[key] == cause.Cause {
		return
	}
	m.said[key] = cause.Cause
	log.FromContext(ctx).Error(
		cause, "An object can't be read and is left as it is; other objects of its kind are not affected",
		"kind", cause.Kind, "object", key,
	)
}

// forget allows an object that can be read now to be logged again.
func (m *mender) forget(content []byte) {
	known := metav1.PartialObjectMetadata{}
	if len(m.said) > 0 && utiljson.Unmarshal(content, &known) == nil {
		delete(m.said, known.Namespace+"/"+known.Name)
	}
}

// known returns the fields of the object's last readable state, or nil if there was none.
func (m *mender) known(key string) map[string]any {
	object, found := m.last(key)
	if !found {
		return nil
	}
	content, err := json.Marshal(object)
	fields := map[string]any{}
	if err != nil || utiljson.Unmarshal(content, &fields) != nil {
		return nil
	}
	return fields
}

// mend replaces the unreadable fields below path by their last readable values, or drops them.
func (m *mender) mend(fields, last map[string]any, path []string) {
	for name, value := range fields {
		at := append(slices.Clone(path), name)
		if m.readable(at, value) {
			continue
		}
		former, known := last[name]
		nested, deeper := value.(map[string]any)
		if deeper && m.readable(at, map[string]any{}) {
			below, _ := former.(map[string]any)
			m.mend(nested, below, at)
			continue
		}
		delete(fields, name)
		if known {
			fields[name] = former
		}
	}
}

// readable reports whether an object with only this value, at the path, can be decoded.
func (m *mender) readable(path []string, value any) bool {
	for _, name := range slices.Backward(path) {
		value = map[string]any{name: value}
	}
	content, err := json.Marshal(value)
	return err == nil && utiljson.Unmarshal(content, m.empty()) == nil
}
