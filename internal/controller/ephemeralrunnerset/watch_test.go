package ephemeralrunnerset_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// withOwner gives a runner another owner.
func withOwner(kind, name string, uid types.UID) func(*v1alpha1.EphemeralRunner) {
	return func(r *v1alpha1.EphemeralRunner) {
		r.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
}

// A set is enqueued only for changes that may affect a decision.
func TestEventsThatEnqueueASet(t *testing.T) {
	register := func(r *v1alpha1.EphemeralRunner) { r.Status.RunnerID = 7 }
	write := func(r *v1alpha1.EphemeralRunner) { r.ResourceVersion += "1" }
	for name, test := range map[string]struct {
		before []func(*v1alpha1.EphemeralRunner)
		change func(*v1alpha1.EphemeralRunner)
		want   []string // sets, by name
	}{
		"shown again":                      {change: func(*v1alpha1.EphemeralRunner) {}},
		"got a job":                        {change: func(r *v1alpha1.EphemeralRunner) { r.Status.JobID = "1" }, want: []string{"set"}},
		"says what it waits for":           {change: func(r *v1alpha1.EphemeralRunner) { r.Status.Reason = "Unschedulable" }, want: []string{"set"}},
		"is being deleted":                 {change: func(r *v1alpha1.EphemeralRunner) { r.DeletionTimestamp = new(metav1.Now()) }, want: []string{"set"}},
		"written to while not registered":  {change: write, want: []string{"set"}},
		"written to when it is registered": {before: []func(*v1alpha1.EphemeralRunner){register}, change: write},
		"created again under its name":     {change: func(r *v1alpha1.EphemeralRunner) { r.UID = "another" }, want: []string{"set"}},
		"given to another set":             {change: withOwner("EphemeralRunnerSet", "other", "2"), want: []string{"other", "set"}},
		"given to a namesake":              {change: withOwner("EphemeralRunnerSet", "set", "2"), want: []string{"set"}},
		"given to nobody":                  {change: func(r *v1alpha1.EphemeralRunner) { r.OwnerReferences = nil }, want: []string{"set"}},
		"given to something else":          {change: withOwner("ReplicaSet", "set", "2"), want: []string{"set"}},
		"nobody's, as before": {
			before: []func(*v1alpha1.EphemeralRunner){withOwner("ReplicaSet", "set", "2")}, change: register},
	} {
		t.Run(name, func(t *testing.T) {
			r := many(1)[0]
			r.Status, r.ResourceVersion = v1alpha1.EphemeralRunnerStatus{}, "1"
			for _, change := range test.before {
				change(&r)
			}
			watch := controllertest.RunnerWatch{Handler: ephemeralrunnerset.NewController(
				ephemeralrunnerset.Options{Clock: clock.RealClock{}}).RunnerEvents()}
			watch.Show(t.Context(), []v1alpha1.EphemeralRunner{*r.DeepCopy()})
			test.change(&r)
			var got []string
			for _, request := range watch.Show(t.Context(), []v1alpha1.EphemeralRunner{r}) {
				got = append(got, request.Name)
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("sets %v are enqueued, want %v", got, test.want)
			}
		})
	}
}

// The watch was broken while a runner changed and was deleted: the event that follows has the state that the watch saw
// last. The runner is neither counted nor expected any more: another one takes its place.
func TestRunnerWhoseDeletionWasMissedIsForgotten(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.watch.Show(t.Context(), f.runners()) // no pass has seen them
		f.late = true
		runner, queue := f.runners()[0], &controllertest.Queue{}
		last := runner.DeepCopy()
		last.OwnerReferences, last.UID = nil, "former"
		runner.Finalizers = nil
		if err := errors.Join(f.api.Update(t.Context(), &runner), f.api.Delete(t.Context(), &runner)); err != nil {
			t.Fatal(err)
		}
		f.controller.RunnerEvents().Delete(t.Context(), event.DeleteEvent{Object: last, DeleteStateUnknown: true}, queue)
		if len(queue.Requests) != 1 {
			t.Errorf("%d sets enqueued, want one", len(queue.Requests))
		}
		f.reconcile()
		if f.wantRunners(2); f.requests["create"] != 3 {
			t.Errorf("%d runners were created, want one for each and one for that which is gone", f.requests["create"])
		}
	}, newSet(2))
}

// replaceBy replaces the set by another one of its name, between two passes.
func (f *fixture) replaceBy(another *v1alpha1.EphemeralRunnerSet) error {
	former := f.set()
	former.Finalizers = nil
	if err := f.api.Update(f.Context(), former); err != nil {
		return err
	}
	err := client.IgnoreNotFound(f.api.Delete(f.Context(), former))
	err = errors.Join(err, f.api.Create(f.Context(), another)) // which gives it a UID of its own
	controllertest.Origin(another)
	return errors.Join(err, f.api.Update(f.Context(), another))
}

// Runners of a deleted set do not belong to a set that was recreated under its name.
func TestNamesakeHasNoneOfTheFormerSetsRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.reconcile()
		f.wantRunners(2)
		if err := f.replaceBy(newSet(2)); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
		f.wantRunners(4)
	}, newSet(2))
}

// A runner is seen between the moments at which a pass reads the roster and the expectations: it must count as one.
func TestRunnerThatIsSeenDuringAPassCountsOnce(t *testing.T) {
	seen, expected, runner := roster.New(), creations.New(clock.RealClock{}), &many(1)[0]
	expected.Expect(runner.Name)
	before := seen.Of("set-uid")
	seen.Put(client.ObjectKeyFromObject(runner), roster.OwnerOf(runner), roster.Of(runner))
	expected.Observe(before)
	if got := len(before) + expected.Unseen(time.Now()).Expected; got != 1 {
		t.Errorf("%d runners in the pass during which it was seen, want 1", got)
	}
	after := seen.Of("set-uid")
	expected.Observe(after)
	if got := len(after) + expected.Unseen(time.Now()).Expected; got != 1 {
		t.Errorf("%d runners in the next pass, want 1", got)
	}
}
