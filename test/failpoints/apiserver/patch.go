package apiserver

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// unmarshal reads whole numbers as such, as Kubernetes does.
func unmarshal(text []byte, into *map[string]any) error { return utiljson.Unmarshal(text, into) }

func (s *Server) patch(r *http.Request, q Request, body []byte) ([]byte, error) {
	format, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if types.PatchType(format) == types.ApplyYAMLPatchType {
		return s.apply(q, r.URL.Query().Get("fieldManager"), body)
	}
	before, err := s.find(q)
	if err != nil {
		return nil, err
	}
	patched, err := patched(q, types.PatchType(format), before.raw, body)
	if err != nil {
		return nil, apierrors.NewInvalid(q.groupVersion().WithKind(q.kind()).GroupKind(), q.Name, nil)
	}
	content, err := decode(patched)
	if err != nil {
		return nil, err
	}
	return s.replace(q, before, content)
}

// patched returns what a patch makes of an object.
func patched(q Request, format types.PatchType, before, patch []byte) ([]byte, error) {
	switch format {
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, patch)
	case types.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, err
		}
		return operations.Apply(before)
	case types.StrategicMergePatchType:
		example, err := scheme.Scheme.New(q.groupVersion().WithKind(q.kind()))
		if err != nil {
			return nil, err
		}
		return strategicpatch.StrategicMergePatch(before, patch, example)
	}
	return nil, fmt.Errorf("patches of type %q are not known", format)
}

// apply is server-side apply: what the manager applied before and applies no longer goes. Lists are replaced as a whole,
// but for those of the metadata: a real server goes by the schema, and so only differs where two write to one list.
func (s *Server) apply(q Request, manager string, body []byte) ([]byte, error) {
	wanted, err := decode(body)
	if err != nil {
		return nil, err
	}
	configuration := &unstructured.Unstructured{Object: wanted}
	at := place{q.resource, key{q.Namespace, q.Name}}
	before := s.objects[q.resource][at.key]
	uid := configuration.GetUID()
	unstructured.RemoveNestedField(wanted, "metadata", "uid")
	unstructured.RemoveNestedField(wanted, "metadata", "resourceVersion")
	switch {
	case before == nil && uid != "":
		return nil, apierrors.NewConflict(q.groupResource(), q.Name, fmt.Errorf("there is no object with that UID"))
	case before == nil:
		object := configuration.DeepCopy()
		s.begin(at, object)
		made := s.store(at, nil, object)
		s.applied[string(made.object.GetUID())+manager+q.Subresource] = wanted
		return made.raw, nil
	case uid != "" && uid != before.object.GetUID():
		return nil, apierrors.NewConflict(q.groupResource(), q.Name, fmt.Errorf("the UID is another object's"))
	}
	record := string(before.object.GetUID()) + manager + q.Subresource
	object := before.object.DeepCopy()
	withdraw(object.Object, s.applied[record], wanted)
	merge(object.Object, wanted)
	s.applied[record] = runtime.DeepCopyJSON(wanted)
	object.SetResourceVersion("")
	return s.replace(q, before, object.Object)
}

// withdraw removes from an object what was applied, unless it is wanted still.
func withdraw(object, applied, wanted map[string]any) {
	for name, was := range applied {
		want, still := wanted[name]
		if !still {
			delete(object, name)
			continue
		}
		inWas, nested := was.(map[string]any)
		inWanted, stillNested := want.(map[string]any)
		inObject, has := object[name].(map[string]any)
		if nested && stillNested && has {
			withdraw(inObject, inWas, inWanted)
		}
	}
}

// merge sets what is wanted in an object.
func merge(object, wanted map[string]any) {
	for name, want := range wanted {
		nested, isMap := want.(map[string]any)
		within, has := object[name].(map[string]any)
		switch {
		case isMap && has:
			merge(within, nested)
		case name == "finalizers" || name == "ownerReferences":
			object[name] = union(object[name], want)
		default:
			object[name] = runtime.DeepCopyJSONValue(want)
		}
	}
}

// union adds to a list what is wanted and not in it.
func union(has, wanted any) any {
	list, _ := has.([]any)
	more, _ := wanted.([]any)
	for _, want := range more {
		found := false
		for _, item := range list {
			found = found || reflect.DeepEqual(item, want)
		}
		if !found {
			list = append(list, runtime.DeepCopyJSONValue(want))
		}
	}
	return list
}

// encode writes an object as JSON.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // only what came from JSON is written
	}
	return text
}
