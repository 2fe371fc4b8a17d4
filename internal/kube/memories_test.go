package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemoriesAreOfOneObjectUntilItIsForgotten(t *testing.T) {
	var m Memories[int]
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	*m.Of(a) = 1
	if *m.Of(a) != 1 || *m.Of(b) != 0 {
		t.Errorf("a remembers %d, b %d; want 1 and 0", *m.Of(a), *m.Of(b))
	}
	m.Forget(a)
	if *m.Of(a) != 0 {
		t.Errorf("a new a remembers %d", *m.Of(a))
	}
}
