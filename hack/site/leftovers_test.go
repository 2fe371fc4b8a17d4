package site

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// without is a cluster that has none of our kinds, and no objects.
type without struct{ client.Client }

func (without) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if kind := list.GetObjectKind().GroupVersionKind(); kind.Group == "actions.github.com" {
		return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: kind.Group, Kind: kind.Kind},
			SearchedVersions: []string{kind.Version}}
	}
	return nil
}

// Kinds may be gone when everything is uninstalled. Before, a cluster without them has no runners only because it is
// the wrong one.
func TestKindsAreMissingOnlyAtTheEnd(t *testing.T) {
	if left, err := EverythingLeft(t.Context(), without{}, "a"); err != nil || len(left) > 0 {
		t.Errorf("after the kinds are gone, there is left: %v, %v", left, err)
	}
	for name, ask := range map[string]func() ([]string, error){
		"runners":     func() ([]string, error) { return RunnersLeft(t.Context(), without{}, "a") },
		"a namespace": func() ([]string, error) { return NamespaceLeft(t.Context(), without{}, "a") },
	} {
		if left, err := ask(); !meta.IsNoMatchError(err) {
			t.Errorf("%s: without the kinds, %v, %v", name, left, err)
		}
	}
}
