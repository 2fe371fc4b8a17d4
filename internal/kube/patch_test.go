package kube

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// newAPI returns a fake API server that has the objects, and a counter of its writes.
func newAPI(t *testing.T, objects ...client.Object) (client.WithWatch, *int) {
	t.Helper()
	writes := new(int)
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(objects...).WithStatusSubresource(&v1alpha1.EphemeralRunner{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				*writes++
				return c.Patch(ctx, object, patch, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				*writes++
				return c.SubResource(name).Patch(ctx, object, patch, options...)
			},
		}).Build(), writes
}

func runnerWith(finalizers ...string) *v1alpha1.EphemeralRunner {
	return &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "uid", Finalizers: finalizers}}
}

func read(t *testing.T, c client.Client) *v1alpha1.EphemeralRunner {
	t.Helper()
	runner := &v1alpha1.EphemeralRunner{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "r"}, runner); err != nil {
		t.Fatal(err)
	}
	return runner
}

func TestStatusIsWrittenWhereItDiffers(t *testing.T) {
	c, writes := newAPI(t, runnerWith())
	runner := read(t, c)
	before := runner.DeepCopy()
	if wrote, err := PatchStatus(t.Context(), c, runner, before); wrote || err != nil || *writes != 0 {
		t.Errorf("PatchStatus() = %t, %v with %d writes for no difference", wrote, err, *writes)
	}
	runner.Status.Reason = "Because"
	if wrote, err := PatchStatus(t.Context(), c, runner, before); !wrote || err != nil {
		t.Errorf("PatchStatus() = %t, %v", wrote, err)
	}
	if read(t, c).Status.Reason != "Because" || runner.ResourceVersion == before.ResourceVersion {
		t.Error("the status was not written, or the object did not take the answer")
	}
}

func TestMetadataIsWrittenWhereItDiffers(t *testing.T) {
	c, writes := newAPI(t, runnerWith())
	runner := read(t, c)
	before := runner.DeepCopy()
	if wrote, err := Patch(t.Context(), c, runner, before); wrote || err != nil || *writes != 0 {
		t.Errorf("Patch() = %t, %v with %d writes for no difference", wrote, err, *writes)
	}
	SetAnnotation(runner, "a", "b")
	if wrote, err := Patch(t.Context(), c, runner, before); !wrote || err != nil || read(t, c).Annotations["a"] != "b" {
		t.Errorf("Patch() = %t, %v", wrote, err)
	}
}

func TestFinalizerIsAddedOnceAndNeverOverAnothers(t *testing.T) {
	c, writes := newAPI(t, runnerWith("theirs"))
	late := read(t, c)
	runner := read(t, c)
	for range 2 {
		if err := AddFinalizer(t.Context(), c, runner, "ours"); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"theirs", "ours"}) || *writes != 1 {
		t.Errorf("finalizers %v after %d writes", got, *writes)
	}
	if err := AddFinalizer(t.Context(), c, runner, "ours", "theirs", "absent"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"ours"}) || *writes != 2 {
		t.Errorf("finalizers %v after %d writes, want those that ours replaces removed", got, *writes)
	}
	if err := AddFinalizer(t.Context(), c, late, "third"); !apierrors.IsConflict(err) {
		t.Errorf("AddFinalizer() on a late object = %v, want a conflict", err)
	}
}

func TestFinalizersAreRemovedInOneRequest(t *testing.T) {
	c, writes := newAPI(t, runnerWith("a", "theirs", "b"))
	runner := read(t, c)
	if err := RemoveFinalizers(t.Context(), c, runner, "a", "b", "absent"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"theirs"}) || *writes != 1 {
		t.Errorf("finalizers %v after %d writes", got, *writes)
	}
	if err := RemoveFinalizers(t.Context(), c, read(t, c), "a"); err != nil || *writes != 1 {
		t.Errorf("RemoveFinalizers() = %v, %d writes though there is none", err, *writes)
	}
	gone := runnerWith("a")
	gone.Name = "gone"
	if err := RemoveFinalizers(t.Context(), c, gone, "a"); err != nil {
		t.Errorf("RemoveFinalizers() of what is gone = %v", err)
	}
}

// If somebody removed a finalizer in the meantime, the one that has taken its place must not be removed.
func TestFinalizersAreLeftAloneWhereTheListHasChanged(t *testing.T) {
	c, _ := newAPI(t, runnerWith("a", "ours", "b"))
	late, runner := read(t, c), read(t, c)
	if err := RemoveFinalizers(t.Context(), c, runner, "a"); err != nil {
		t.Fatal(err)
	}
	if err := RemoveFinalizers(t.Context(), c, late, "ours"); err == nil {
		t.Error("removed by a position that is another's by now")
	}
	if got := read(t, c).Finalizers; !slices.Equal(got, []string{"ours", "b"}) {
		t.Errorf("finalizers %v", got)
	}
}

func TestOnlyThisHoldsForOneObject(t *testing.T) {
	runner := runnerWith()
	runner.UID = "this"
	only := UIDPrecondition(runner)
	runner.UID = "another"
	if only.UID == nil || *only.UID != "this" || only.ResourceVersion != nil {
		t.Errorf("UIDPrecondition() = %+v, want the UID it was given and nothing else", only)
	}
}
