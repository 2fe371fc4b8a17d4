package kube

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// What others write (the server its creation time, a listener replicas, a controller counts) is not a reason to write again; a lost
// field or a changed wish is.
func TestApplyWritesOnlyWhatChanged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.EphemeralRunnerSet)
		writes bool
	}{
		"as applied":      {func(*v1alpha1.EphemeralRunnerSet) {}, false},
		"others' label":   {func(set *v1alpha1.EphemeralRunnerSet) { set.Labels["other"] = "x" }, false},
		"omitted field":   {func(set *v1alpha1.EphemeralRunnerSet) { set.Spec.PatchID = 7 }, false},
		"status":          {func(set *v1alpha1.EphemeralRunnerSet) { set.Status.CurrentReplicas = 3 }, false},
		"lost label":      {func(set *v1alpha1.EphemeralRunnerSet) { set.Labels = nil }, true},
		"changed field":   {func(set *v1alpha1.EphemeralRunnerSet) { *set.Spec.MaxRunners = 6 }, true},
		"of another wish": {func(set *v1alpha1.EphemeralRunnerSet) { SetAnnotation(set, v1alpha1.AnnotationIntegrityHash, "x") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			live := runnerSet()
			SetAnnotation(live, v1alpha1.AnnotationIntegrityHash, Hash(runnerSet()))
			live.UID, live.ResourceVersion, live.CreationTimestamp = "u", "1", metav1.NewTime(time.Unix(1, 0))
			test.change(live)
			written := false
			c := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					written = true
					return nil
				},
			}).Build()
			applied, err := Apply(t.Context(), c, runnerSet(), live, []string{"spec", "patchID"})
			if err != nil {
				t.Fatal(err)
			}
			if applied != test.writes || written != test.writes {
				t.Errorf("applied %t, written %t, want %t", applied, written, test.writes)
			}
		})
	}
}

func runnerSet() *v1alpha1.EphemeralRunnerSet {
	most := 5
	return &v1alpha1.EphemeralRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "set", Labels: map[string]string{"a": "b"}},
		Spec:       v1alpha1.EphemeralRunnerSetSpec{MaxRunners: &most},
	}
}
