package ephemeralrunner_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// standalone is a runner as a program creates it.
func standalone(r *v1alpha1.EphemeralRunner) {
	r.OwnerReferences, r.Finalizers = nil, nil
	r.Annotations = map[string]string{v1alpha1.AnnotationStandalone: "true"}
}

// serving is the set that registers runners where newRunner does.
func serving() *v1alpha1.EphemeralRunnerSet {
	set, runner := newSet(), newRunner()
	set.Spec.EphemeralRunnerSpec.GitHubConfigUrl = runner.Spec.GitHubConfigUrl + "/"
	set.Spec.EphemeralRunnerSpec.RunnerScaleSetID = runner.Spec.RunnerScaleSetID
	return set
}

// A program's runner becomes one of the set that it names, with its finalizer, before it has anything else.
func TestRunnerThatStandsAloneIsTakenIn(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		runner := f.runner()
		if runner == nil || !metav1.IsControlledBy(runner, newSet()) || f.pod() == nil ||
			len(runner.Finalizers) != 1 {
			t.Fatalf("runner %+v, pod %t", runner, f.pod() != nil)
		}
		f.wantCalls("jit")
	}, newRunner(standalone), serving())
}

// It gets no more than the room that its set has, and says so.
func TestRunnerThatStandsAloneIsLimited(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.admit = func(*v1alpha1.EphemeralRunnerSet, types.NamespacedName) bool { return false }
		f.settle()
		if runner := f.runner(); runner.Status.Reason != v1alpha1.ReasonMaxRunnersReached || f.pod() != nil {
			t.Errorf("status %+v, pod %t", runner.Status, f.pod() != nil)
		}
	}, newRunner(standalone), serving())
}

// No set of another namespace takes a runner in, nor one that is gone; and what a backup or another cluster has left is
// nobody's, whatever it says of itself.
func TestRunnerThatStandsAloneForNobody(t *testing.T) {
	for title, change := range map[string]func(*v1alpha1.EphemeralRunner){
		"of another namespace's set": func(r *v1alpha1.EphemeralRunner) { r.Labels[v1alpha1.LabelScaleSetNamespace] = "b" },
		"of a set that isn't there":  func(r *v1alpha1.EphemeralRunner) { r.Labels[v1alpha1.LabelScaleSetName] = "gone" },
		"of no set":                  func(r *v1alpha1.EphemeralRunner) { delete(r.Labels, v1alpha1.LabelScaleSetName) },
		"with another word":          func(r *v1alpha1.EphemeralRunner) { r.Annotations[v1alpha1.AnnotationStandalone] = "yes" },
		"of another scale set id":    func(r *v1alpha1.EphemeralRunner) { r.Spec.RunnerScaleSetID++ },
		"of another address":         func(r *v1alpha1.EphemeralRunner) { r.Spec.GitHubConfigUrl += "2" },
		"with a registration":        func(r *v1alpha1.EphemeralRunner) { r.Status.RunnerID = 37 },
		"with a job":                 func(r *v1alpha1.EphemeralRunner) { r.Status.JobID = "job" },
		"with an owner that is gone": func(r *v1alpha1.EphemeralRunner) {
			r.OwnerReferences = newRunner().OwnerReferences
			r.OwnerReferences[0].UID = "former"
		},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				if f.runner() != nil || f.pod() != nil {
					t.Errorf("runner %+v, pod %t", f.runner(), f.pod() != nil)
				}
				f.wantEvent(v1alpha1.ReasonOwnerless)
			}, newRunner(standalone, change), serving())
		})
	}
}
