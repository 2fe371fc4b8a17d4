package apiserver

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// collectionDelay is how late the garbage collector is. A real one takes up to a few seconds.
const collectionDelay = time.Second

func (s *Server) remove(q Request, body []byte) ([]byte, error) {
	if q.Name == "" {
		return nil, apierrors.NewMethodNotSupported(q.groupResource(), "deletecollection")
	}
	found, err := s.find(q)
	if err != nil {
		return nil, err
	}
	options := metav1.DeleteOptions{}
	if len(body) > 0 {
		content, err := decode(body)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if wanted := options.Preconditions; wanted != nil {
		if (wanted.UID != nil && *wanted.UID != found.object.GetUID()) ||
			(wanted.ResourceVersion != nil && *wanted.ResourceVersion != found.object.GetResourceVersion()) {
			return nil, apierrors.NewConflict(q.groupResource(), q.Name, fmt.Errorf("a precondition isn't met"))
		}
	}
	return s.end(place{q.resource, key{q.Namespace, q.Name}}, found, options.GracePeriodSeconds).raw, nil
}

// end deletes an object, or marks it until its node and its finalizers let it go.
func (s *Server) end(at place, found *stored, wanted *int64) *stored {
	grace := graceOf(at, found.object, wanted)
	object := found.object.DeepCopy()
	if before := object.GetDeletionGracePeriodSeconds(); before != nil {
		grace = min(grace, *before) // a later deletion only shortens it
	}
	if object.GetDeletionTimestamp() == nil || at.plural == "pods" {
		ends := metav1.NewTime(time.Now().UTC().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
		object.SetDeletionTimestamp(&ends)
	}
	if at.plural == "pods" || object.GetDeletionGracePeriodSeconds() == nil {
		object.SetDeletionGracePeriodSeconds(&grace)
	}
	return s.store(at, found, object)
}

// graceOf returns for how many seconds a pod waits for its node, 0 for anything else.
func graceOf(at place, object *unstructured.Unstructured, wanted *int64) int64 {
	if at.plural != "pods" {
		return 0
	}
	node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	if node == "" || phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed) {
		return 0
	}
	if wanted != nil {
		return *wanted
	}
	grace, _, _ := unstructured.NestedInt64(object.Object, "spec", "terminationGracePeriodSeconds")
	return grace
}

// drop removes an object for good, and what it owned soon after.
func (s *Server) drop(at place, before, last *stored) {
	delete(s.objects[at.resource], at.key)
	delete(s.uids, string(before.object.GetUID()))
	s.tell(change{at, s.version, last, nil})
	for of, objects := range s.objects {
		for name, dependent := range objects {
			for _, owner := range owners(dependent.object) {
				if owner == string(before.object.GetUID()) {
					s.collectLater(place{of, name}, dependent.object)
				}
			}
		}
	}
}

// collectLater has the garbage collector look at an object that has owners.
func (s *Server) collectLater(at place, object *unstructured.Unstructured) {
	if len(owners(object)) == 0 {
		return
	}
	time.AfterFunc(collectionDelay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		found := s.objects[at.resource][at.key]
		if found == nil || found.object.GetUID() != object.GetUID() || found.object.GetDeletionTimestamp() != nil {
			return
		}
		for _, owner := range owners(found.object) {
			if _, lives := s.uids[owner]; lives {
				return
			}
		}
		s.end(at, found, nil)
	})
}
