package kube_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// What others write (the server its creation time, a listener replicas, a controller counts) is not a reason to write
// again; a lost field or a changed wish is.
func TestApplyWritesOnlyWhatChanged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.EphemeralRunnerSet)
		writes bool
	}{
		"as applied":    {func(*v1alpha1.EphemeralRunnerSet) {}, false},
		"others' label": {func(set *v1alpha1.EphemeralRunnerSet) { set.Labels["other"] = "x" }, false},
		"omitted field": {func(set *v1alpha1.EphemeralRunnerSet) { set.Spec.PatchID = 7 }, false},
		"status":        {func(set *v1alpha1.EphemeralRunnerSet) { set.Status.CurrentReplicas = 3 }, false},
		"lost label":    {func(set *v1alpha1.EphemeralRunnerSet) { set.Labels = nil }, true},
		"changed field": {func(set *v1alpha1.EphemeralRunnerSet) { *set.Spec.MaxRunners = 6 }, true},
		"of another wish": {
			func(set *v1alpha1.EphemeralRunnerSet) { kube.SetAnnotation(set, v1alpha1.AnnotationIntegrityHash, "x") }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := runnerSet()
			kube.SetAnnotation(live, v1alpha1.AnnotationIntegrityHash, kube.Hash(runnerSet()))
			live.UID, live.ResourceVersion, live.CreationTimestamp = "u", "1", metav1.NewTime(time.Unix(1, 0))
			test.change(live)
			written := false
			c := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(
					context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption,
				) error {
					written = true
					return nil
				},
			}).Build()
			applied, err := kube.Apply(t.Context(), c, runnerSet(), live, []string{"spec", "patchID"})
			if err != nil {
				t.Fatal(err)
			}
			if applied != test.writes || written != test.writes {
				t.Errorf("applied %t, written %t, want %t", applied, written, test.writes)
			}
		})
	}
}

// The hash that is written to a Secret is not of its data, by which somebody could try passwords. Data that differs is
// applied all the same.
func TestHashOfASecretIsNotOfItsData(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kinds.Scheme()).Build()
	secret := func(password string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"},
			Data:       map[string][]byte{"password": []byte(password)},
		}
	}
	var hashes []string
	var live client.Object
	for _, password := range []string{"a", "b"} {
		if applied, err := kube.Apply(t.Context(), c, secret(password), live); err != nil || !applied {
			t.Fatalf("applied %t: %v", applied, err)
		}
		now := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "s"}, now); err != nil {
			t.Fatal(err)
		}
		if got := string(now.Data["password"]); got != password {
			t.Errorf("the password is %q, want %q", got, password)
		}
		live, hashes = now, append(hashes, now.Annotations[v1alpha1.AnnotationIntegrityHash])
	}
	if hashes[0] == "" || hashes[0] != hashes[1] {
		t.Errorf("hashes %q", hashes)
	}
}

func runnerSet() *v1alpha1.EphemeralRunnerSet {
	most := 5
	return &v1alpha1.EphemeralRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "set", Labels: map[string]string{"a": "b"}},
		Spec:       v1alpha1.EphemeralRunnerSetSpec{MaxRunners: &most},
	}
}

// newAPI returns a fake API server that has the objects, and a counter of its writes.
func newAPI(t *testing.T, objects ...client.Object) (client.WithWatch, *int) {
	t.Helper()
	writes := new(int)
	return fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.EphemeralRunner{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(
				ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
				options ...client.PatchOption,
			) error {
				*writes++
				return c.Patch(ctx, object, patch, options...)
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				*writes++
				return c.SubResource(name).Patch(ctx, object, patch, options...)
			},
		}).Build(), writes
}

func runnerWith(finalizers ...string) *v1alpha1.EphemeralRunner {
	return &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
		Namespace:  "n",
		Name:       "r",
		UID:        "uid",
		Finalizers: finalizers,
	}}
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
	if wrote, err := kube.PatchStatus(t.Context(), c, runner, before); wrote || err != nil || *writes != 0 {
		t.Errorf("PatchStatus() = %t, %v with %d writes for no difference", wrote, err, *writes)
	}
	runner.Status.Reason = "Because"
	if wrote, err := kube.PatchStatus(t.Context(), c, runner, before); !wrote || err != nil {
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
	if wrote, err := kube.Patch(t.Context(), c, runner, before); wrote || err != nil || *writes != 0 {
		t.Errorf("Patch() = %t, %v with %d writes for no difference", wrote, err, *writes)
	}
	kube.SetAnnotation(runner, "a", "b")
	if wrote, err := kube.Patch(t.Context(), c, runner, before); !wrote || err != nil ||
		read(t, c).Annotations["a"] != "b" {
		t.Errorf("Patch() = %t, %v", wrote, err)
	}
}

func TestOnlyThisHoldsForOneObject(t *testing.T) {
	runner := runnerWith()
	runner.UID = "this"
	only := kube.UIDPrecondition(runner)
	runner.UID = "another"
	if only.UID == nil || *only.UID != "this" || only.ResourceVersion != nil {
		t.Errorf("UIDPrecondition() = %+v, want the UID it was given and nothing else", only)
	}
}
