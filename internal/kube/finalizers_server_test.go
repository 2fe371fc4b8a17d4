package kube_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// An object that is deleted next must be cheap to delete; finalizers of others, which keep it, are not ours to remove.
func TestDismissedObjectsHaveNoRecordOfTheirWriters(t *testing.T) {
	const ours, theirs = "example.com/ours", "example.com/theirs"
	cluster := testkube.Shared(t)
	c := cluster.Client()
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
		Namespace:  cluster.NewNamespace(t),
		Name:       "runner",
		Finalizers: []string{ours, theirs},
		Labels:     map[string]string{"a": "b"},
	}}
	if err := c.Create(t.Context(), runner); err != nil {
		t.Fatal(err)
	}
	if len(runner.ManagedFields) == 0 {
		t.Fatal("the API server keeps no record of its own accord: nothing is tested here")
	}
	if err := kube.RemoveFinalizersAndManagedFields(t.Context(), c, runner, ours); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(runner), runner); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(runner.Finalizers, []string{theirs}) || len(runner.ManagedFields) > 0 {
		t.Errorf("finalizers %v, managed fields %v", runner.Finalizers, runner.ManagedFields)
	}
	before := runner.ResourceVersion
	if err := kube.RemoveFinalizersAndManagedFields(
		t.Context(), c, runner, ours,
	); err != nil || runner.ResourceVersion != before {
		t.Errorf(
			"RemoveFinalizersAndManagedFields() = %v, resourceVersion %s to %s though there is nothing to remove",
			err, before, runner.ResourceVersion,
		)
	}
}

// A late cache shows an object that is gone; the one that has its name now keeps its finalizers.
func TestNamesakesKeepTheirFinalizers(t *testing.T) {
	const ours = "example.com/ours"
	cluster := testkube.Shared(t)
	c := cluster.Client()
	former := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.NewNamespace(t),
		Name:      "runner",
	}}
	namesake := former.DeepCopy()
	namesake.Finalizers = []string{ours}
	if err := errors.Join(
		c.Create(t.Context(), former), c.Delete(t.Context(), former), c.Create(t.Context(), namesake),
	); err != nil {
		t.Fatal(err)
	}
	former.Finalizers = []string{ours}
	for name, remove := range map[string]func(context.Context, client.Client, client.Object, ...string) error{
		"RemoveFinalizersAndManagedFields": kube.RemoveFinalizersAndManagedFields,
		"RemoveFinalizers":                 kube.RemoveFinalizers,
	} {
		if err := remove(t.Context(), c, former, ours); err == nil {
			t.Errorf("%s() of an object that is gone met its namesake, and went well", name)
		}
	}
	if err := c.Get(
		t.Context(), client.ObjectKeyFromObject(namesake), namesake,
	); err != nil || !slices.Equal(namesake.Finalizers, []string{ours}) {
		t.Errorf("the namesake has finalizers %v (%v), want its own", namesake.Finalizers, err)
	}
}
