package ephemeralrunnerset

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
)

// withOwner gives a runner another owner.
func withOwner(kind, name string, uid types.UID) func(*v1alpha1.EphemeralRunner) {
	return func(r *v1alpha1.EphemeralRunner) {
		r.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: new(true)}}
	}
}

func names(runners []*roster.Runner) (all []string) {
	for _, r := range runners {
		all = append(all, r.Name)
	}
	return all
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
			watch := controllertest.RunnerWatch{Handler: NewController(Options{Clock: clock.RealClock{}}).
				RunnerEvents()}
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
// last.
func TestRunnerWhoseDeletionWasMissedIsForgotten(t *testing.T) {
	c, set, runners := populate(2)
	c.MemoryOf(set).Creations.Expect(runners[0].Name)
	queue := &controllertest.Queue{}
	last := runners[0].DeepCopy()
	last.OwnerReferences, last.UID = nil, "former"
	c.RunnerEvents().Delete(t.Context(), event.DeleteEvent{Object: last, DeleteStateUnknown: true}, queue)
	if got := names(c.roster.Of(set.UID)); !slices.Equal(got, []string{runners[1].Name}) || len(queue.Requests) != 1 {
		t.Errorf("left: %v, and %d sets enqueued; want the other runner, and one", got, len(queue.Requests))
	}
	if len(c.MemoryOf(set).Creations.Pending()) > 0 {
		t.Error("it is expected still")
	}
}

// Runners of a deleted set do not belong to a set that was recreated under its name.
func TestNamesakeHasNoneOfTheFormerSetsRunners(t *testing.T) {
	c, set, _ := populate(2)
	if former, namesake := len(c.roster.Of(set.UID)), len(c.roster.Of("namesake")); former != 2 || namesake != 0 {
		t.Errorf("the former set has %d runners, its namesake %d; want 2 and none", former, namesake)
	}
}

// A runner is seen between the moments at which a pass reads the roster and the expectations: it must count as one.
func TestRunnerThatIsSeenDuringAPassCountsOnce(t *testing.T) {
	c, set, runners := NewController(Options{Clock: clock.RealClock{}}), newSet(1), many(1)
	s := c.MemoryOf(set)
	s.Creations.Expect(runners[0].Name)
	before := c.roster.Of(set.UID)
	watch := controllertest.RunnerWatch{Handler: c.RunnerEvents()}
	watch.Show(t.Context(), runners)
	s.Creations.Observe(before)
	if got := len(before) + s.Creations.Unseen(c.options.Clock.Now()).Expected; got != 1 {
		t.Errorf("%d runners in the pass during which it was seen, want 1", got)
	}
	after := c.roster.Of(set.UID)
	s.Creations.Observe(after)
	if got := len(after) + s.Creations.Unseen(c.options.Clock.Now()).Expected; got != 1 {
		t.Errorf("%d runners in the next pass, want 1", got)
	}
}
