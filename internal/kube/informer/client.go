package informer

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// RefuseUnreadable returns a client whose Get fails for an object that couldn't be read as a whole, so that nobody acts
// on the rest of it. It does return an object that is being deleted, because the rest is enough to finalize it. Lists
// have all objects.
func RefuseUnreadable(c client.Client) client.Client { return refusing{c} }

// IsWhole reports whether an object could be read as a whole.
func IsWhole(object client.Object) bool {
	_, unreadable := object.GetAnnotations()[annotationUnreadable]
	return !unreadable
}

type refusing struct{ client.Client }

// Get fails with *UnreadableError for an object that could not be read as a whole.
func (r refusing) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if err := r.Client.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if IsWhole(object) || object.GetDeletionTimestamp() != nil {
		return nil
	}
	kind, err := r.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	return &UnreadableError{
		Kind:      kind.Kind,
		Namespace: key.Namespace,
		Name:      key.Name,
		Cause:     object.GetAnnotations()[annotationUnreadable],
	}
}

// ListReadable lists objects even if some can't be decoded as a whole. It returns those; list has what can be read of
// them. scheme knows the kind.
func ListReadable(
	ctx context.Context, reader client.Reader, scheme *runtime.Scheme, list client.ObjectList,
	options ...client.ListOption,
) ([]*UnreadableError, error) {
	err := reader.List(ctx, list, options...)
	if !undecodable(err) {
		return nil, err
	}
	kind, unknown := apiutil.GVKForObject(list, scheme)
	if unknown != nil {
		return nil, err
	}
	raw := &unstructured.UnstructuredList{}
	raw.SetGroupVersionKind(kind)
	if reader.List(ctx, raw, options...) != nil {
		return nil, err
	}
	return decodeItems(raw, list)
}

// decodeItems fills list with the items of raw, as far as they can be decoded.
func decodeItems(
	raw *unstructured.UnstructuredList, list client.ObjectList,
) (unreadable []*UnreadableError, err error) {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	kind := reflect.TypeOf(items).Elem().Elem()
	decoded := make([]runtime.Object, 0, len(raw.Items))
	for i := range raw.Items {
		object := reflect.New(kind).Interface().(runtime.Object)
		mender := newMender(object, func(string) (any, bool) { return nil, false })
		content, err := raw.Items[i].MarshalJSON()
		if err != nil {
			return nil, err
		}
		if cause := mender.cause(content); cause != nil {
			unreadable = append(unreadable, cause)
			content = mender.mended(content, cause)
		}
		if err := utiljson.Unmarshal(content, object); err != nil {
			return nil, err
		}
		decoded = append(decoded, object)
	}
	return unreadable, meta.SetList(list, decoded)
}
