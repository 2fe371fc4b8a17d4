package apiserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// stored is one version of an object, which doesn't change.
type stored struct {
	object *unstructured.Unstructured
	// raw is the object in JSON.
	raw []byte
}

// change is one of the history, which watches resume from. Before is nil of a new object, after of one that is gone.
type change struct {
	place
	version       int64
	before, after *stored
}

func (s *Server) find(q Request) (*stored, error) {
	if found := s.objects[q.resource][key{q.Namespace, q.Name}]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(q.groupResource(), q.Name)
}

// decode reads an object in JSON or protobuf.
func decode(body []byte) (map[string]any, error) {
	if len(body) > 4 && string(body[:4]) == "k8s\x00" {
		typed, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if body, err = json.Marshal(typed); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		content, err := decode(body)
		if err == nil {
			content["kind"], content["apiVersion"] = kind.Kind, kind.GroupVersion().String()
		}
		return content, err
	}
	object := map[string]any{}
	if err := unmarshal(body, &object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

func (s *Server) create(q Request, body []byte) ([]byte, error) {
	content, err := decode(body)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	if object.GetName() == "" {
		s.names++
		object.SetName(object.GetGenerateName() + strconv.Itoa(s.names))
	}
	at := place{q.resource, key{q.Namespace, object.GetName()}}
	if s.objects[q.resource][at.key] != nil {
		return nil, apierrors.NewAlreadyExists(q.groupResource(), at.key.name)
	}
	s.begin(at, object)
	if q.DryRun {
		return encode(object.Object), nil
	}
	return s.store(at, nil, object).raw, nil
}

// begin gives a new object what the server decides.
func (s *Server) begin(at place, object *unstructured.Unstructured) {
	object.SetNamespace(at.namespace)
	object.SetAPIVersion(at.groupVersion().String())
	object.SetKind(at.kind())
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version+1)))
	object.SetCreationTimestamp(metav1.NewTime(time.Now().UTC().Truncate(time.Second)))
	object.SetDeletionTimestamp(nil)
	switch {
	case at.group == ours:
		object.SetGeneration(1)
		object.Object["status"] = map[string]any{"observedGeneration": int64(-1)} // the default in the CRDs
	case at.plural == "pods":
		object.Object["status"] = map[string]any{"phase": string(corev1.PodPending)}
		if _, given, _ := unstructured.NestedInt64(object.Object, "spec", "terminationGracePeriodSeconds"); !given {
			_ = unstructured.SetNestedField(object.Object, int64(30), "spec", "terminationGracePeriodSeconds")
		}
	case at.plural == "secrets":
		moveStringData(object)
	}
}

// moveStringData encodes what a Secret was given in the clear.
func moveStringData(object *unstructured.Unstructured) {
	clearText, found, _ := unstructured.NestedStringMap(object.Object, "stringData")
	if !found {
		return
	}
	delete(object.Object, "stringData")
	data := corev1.Secret{Data: map[string][]byte{}}
	for name, value := range clearText {
		data.Data[name] = []byte(value)
	}
	raw, _ := json.Marshal(data.Data)
	encoded := map[string]any{}
	_ = unmarshal(raw, &encoded)
	object.Object["data"] = encoded
}

// store makes a version the present one, or drops the object if nothing keeps it any longer, and tells the watches.
func (s *Server) store(at place, before *stored, object *unstructured.Unstructured) *stored {
	object.SetManagedFields(nil)
	if before != nil {
		object.SetResourceVersion(before.object.GetResourceVersion())
		s.settle(at, before, object)
		if reflect.DeepEqual(before.object.Object, object.Object) {
			return before
		}
	}
	s.version++
	object.SetResourceVersion(formatVersion(s.version))
	raw, err := json.Marshal(object.Object)
	if err != nil {
		panic(err) // it came from JSON
	}
	after := &stored{object: object, raw: raw}
	if before != nil && object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && !graceful(object) {
		s.drop(at, before, after)
		return after
	}
	if s.objects[at.resource] == nil {
		s.objects[at.resource] = map[key]*stored{}
	}
	s.objects[at.resource][at.key] = after
	s.uids[string(object.GetUID())] = at
	s.tell(change{at, s.version, before, after})
	if before == nil {
		s.collectLater(at, object)
	}
	return after
}

// settle keeps what no client changes, and counts generations.
func (s *Server) settle(at place, before *stored, object *unstructured.Unstructured) {
	object.SetUID(before.object.GetUID())
	object.SetCreationTimestamp(before.object.GetCreationTimestamp())
	object.SetName(at.key.name)
	object.SetNamespace(at.namespace)
	if at.group != ours {
		return
	}
	generation := before.object.GetGeneration()
	if !reflect.DeepEqual(before.object.Object["spec"], object.Object["spec"]) ||
		(before.object.GetDeletionTimestamp() == nil) != (object.GetDeletionTimestamp() == nil) {
		generation++
	}
	object.SetGeneration(generation)
}

// graceful reports whether a pod that is being deleted waits for its node.
func graceful(object *unstructured.Unstructured) bool {
	grace := object.GetDeletionGracePeriodSeconds()
	return grace != nil && *grace > 0
}

func (s *Server) update(q Request, body []byte) ([]byte, error) {
	before, err := s.find(q)
	if err != nil {
		return nil, err
	}
	content, err := decode(body)
	if err != nil {
		return nil, err
	}
	return s.replace(q, before, content)
}

// replace stores what an update or patch has made of an object.
func (s *Server) replace(q Request, before *stored, content map[string]any) ([]byte, error) {
	object := &unstructured.Unstructured{Object: content}
	if version := object.GetResourceVersion(); version != "" && version != before.object.GetResourceVersion() {
		return nil, apierrors.NewConflict(q.groupResource(), q.Name, fmt.Errorf("it has been modified"))
	}
	if uid := object.GetUID(); uid != "" && uid != before.object.GetUID() {
		return nil, apierrors.NewConflict(q.groupResource(), q.Name, fmt.Errorf("the UID is another object's"))
	}
	// A status is written by its own subresource only, and nothing else by that.
	if q.Subresource == "status" {
		whole := before.object.DeepCopy()
		whole.Object["status"] = object.Object["status"]
		object = whole
	} else if q.group == ours || q.plural == "pods" || q.plural == "poddisruptionbudgets" {
		if status, has := before.object.Object["status"]; has {
			object.Object["status"] = status
		} else {
			delete(object.Object, "status")
		}
	}
	if q.plural == "secrets" {
		moveStringData(object)
	}
	object.SetDeletionTimestamp(before.object.GetDeletionTimestamp())
	object.SetDeletionGracePeriodSeconds(before.object.GetDeletionGracePeriodSeconds())
	return s.store(place{q.resource, key{q.Namespace, q.Name}}, before, object).raw, nil
}

// bind puts a pod on a node.
func (s *Server) bind(q Request, body []byte) ([]byte, error) {
	binding, err := decode(body)
	if err != nil {
		return nil, err
	}
	before, err := s.find(q)
	if err != nil {
		return nil, err
	}
	target, _, _ := unstructured.NestedString(binding, "target", "name")
	object := before.object.DeepCopy()
	if bound, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName"); bound != "" {
		return nil, apierrors.NewConflict(q.groupResource(), q.Name, fmt.Errorf("it is bound to %s", bound))
	}
	if err := unstructured.SetNestedField(object.Object, target, "spec", "nodeName"); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.store(place{q.resource, key{q.Namespace, q.Name}}, before, object)
	return []byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), nil
}

// owners returns the UIDs of an object's owners.
func owners(object *unstructured.Unstructured) (uids []string) {
	for _, owner := range object.GetOwnerReferences() {
		uids = append(uids, string(owner.UID))
	}
	return slices.Compact(uids)
}
