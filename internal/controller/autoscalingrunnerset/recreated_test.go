package autoscalingrunnerset

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// recreate deletes the set with everything that belongs to it, and creates another of its name, before the controller
// looks again.
func (f *fixture) recreate() {
	f.Helper()
	f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Finalizers = nil })
	f.delete()
	for _, kind := range []client.Object{&v1alpha1.EphemeralRunnerSet{}, &v1alpha1.AutoscalingListener{}} {
		for _, namespace := range []string{setNamespace, managerNamespace} {
			if err := f.client.DeleteAllOf(f.Context(), kind, client.InNamespace(namespace)); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.create(newSet(func(set *v1alpha1.AutoscalingRunnerSet) { set.UID = "recreated-uid" }))
}

// What GitHub answered to the former set is nothing to its successor: the scale set of that answer may be deleted
// since.
func TestRecreatedSetDoesNotInheritWhatGitHubAnsweredToTheFormerOne(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		former := f.set().Status.Registration
		if former == nil {
			t.Fatal("the former set is not registered")
		}
		f.recreate()
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{}
		f.github.Made()
		f.settle()
		if now := f.set().Status.Registration; now == nil || now.ID == former.ID {
			t.Errorf("the recreated set is registered as %+v, want another scale set than %d, which is deleted; "+
				"calls: %q", now,
				former.ID, f.github.Made())
		}
	})
}

// Its finalizer, the deadline of its deletion and its Events start over, too.
func TestRecreatedSetStartsWithoutTheFormersMemory(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.recreate()
		w := f.observe()
		if w.Memory.recordedAs != "" || !w.Memory.written.At.IsZero() {
			t.Errorf("it remembers %+v", w.Memory)
		}
		if _, known := f.controller.syncs.Last(setKey); known {
			t.Error("it has the former one's last call")
		}
	})
}
