package informer_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// annotationUnreadable is on what could not be read as a whole.
const annotationUnreadable = "actions.github.com/unreadable"

// Nobody acts on part of an object, but it can be deleted, and it is counted.
func TestRefuseUnreadable(t *testing.T) {
	pod := func(name, cause string, finalizers ...string) *corev1.Pod {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Finalizers: finalizers}}
		if cause != "" {
			object.Annotations = map[string]string{annotationUnreadable: cause}
		}
		return object
	}
	c := informer.RefuseUnreadable(fake.NewClientBuilder().WithScheme(scheme.Scheme).
		WithObjects(
			pod("good", ""), pod("bad", "no containers"), pod("deleted", "no containers", "example.com/a"),
		).Build())
	if err := c.Delete(t.Context(), pod("deleted", "")); err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"good": false, "bad": true, "deleted": false} {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, &corev1.Pod{})
		var unreadable *informer.UnreadableError
		if errors.As(err, &unreadable) != refused || (!refused && err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	pods := &corev1.PodList{}
	if err := c.List(t.Context(), pods); err != nil || len(pods.Items) != 3 {
		t.Errorf("%d pods, %v", len(pods.Items), err)
	}
}

// undecoded is an API server with a list of pods that can't all be decoded.
type undecoded struct {
	client.Reader
	pods string
}

func (u undecoded) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	raw, untyped := list.(*unstructured.UnstructuredList)
	if !untyped {
		return errors.New("json: cannot unmarshal")
	}
	return raw.UnmarshalJSON([]byte(u.pods))
}

func TestListReadable(t *testing.T) {
	pods := &corev1.PodList{}
	unreadable, err := informer.ListReadable(t.Context(), undecoded{pods: podList(badPod, goodPod)}, scheme.Scheme, pods)
	if err != nil || len(unreadable) != 1 || unreadable[0].Name != "bad" {
		t.Errorf("unreadable are %v, %v", unreadable, err)
	}
	if len(pods.Items) != 2 || pods.Items[0].Spec.NodeName != "a" || pods.Items[1].Name != "good" {
		t.Errorf("pods are %+v", pods.Items)
	}
}
