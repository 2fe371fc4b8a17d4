package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMemoriesAreOfOneObjectUntilItIsForgottenOrRecreated(t *testing.T) {
	var m Memories[int]
	object := func(name string, uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	}
	want := func(of *corev1.Pod, number int, fresh bool) {
		t.Helper()
		if got, isFresh := m.Of(of); *got != number || isFresh != fresh {
			t.Errorf("%s with UID %s remembers %d, fresh: %t; want %d, %t", of.Name, of.UID, *got, isFresh, number, fresh)
		}
	}
	a, b := object("a", "1"), object("b", "2")
	want(a, 0, true)
	memory, _ := m.Of(a)
	*memory = 1
	want(a, 1, false)
	want(b, 0, true)
	want(object("a", "3"), 0, true)
	want(object("a", "3"), 0, false)
	memory, _ = m.Of(b)
	*memory = 2
	m.Forget(client.ObjectKeyFromObject(b))
	want(b, 0, true)
}
