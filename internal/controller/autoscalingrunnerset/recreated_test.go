package autoscalingrunnerset_test

import (
	"slices"
	"strings"
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

// Its finalizer, its journal, the pace of its status, its counts and its Events start over, too.
func TestRecreatedSetStartsWithoutTheFormersMemory(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		runnerSet := f.runnerSets()[0]
		runnerSet.Status.LostJobs = 5
		f.updateStatus(&runnerSet)
		f.want(3)
		f.settle()
		if lost := f.set().Status.LostJobs; lost != 5 {
			t.Fatalf("%d lost jobs of the former set, want 5", lost)
		}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MaxRunners = new(9) })
		f.reconcile() // which writes the status
		f.recreate()
		f.events()
		f.github.Made()
		f.reconcile()
		set := f.set()
		if calls := f.github.Made(); !slices.Contains(calls, "find") {
			t.Errorf("calls %q, want GitHub to be asked for its scale set", calls)
		}
		if records := set.Status.Registrations; len(records) != 1 || records[0].State != v1alpha1.RegistrationAsked {
			t.Errorf("journal %+v, want that it is asked for", records)
		}
		if !slices.Contains(set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet) ||
			set.Status.ObservedGeneration != set.Generation || len(set.Status.Conditions) == 0 {
			t.Errorf("finalizers %q and status %+v after the first pass", set.Finalizers, set.Status)
		}
		f.settle()
		if told := strings.Join(f.events(), "\n"); strings.Contains(told, "ScaledDown") {
			t.Errorf("told %s", told)
		}
		if lost := f.set().Status.LostJobs; lost != 0 {
			t.Errorf("%d lost jobs, which were the former set's", lost)
		}
	})
}
