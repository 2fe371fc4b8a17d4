package autoscalingrunnerset_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// newNeighbour is the twin under a name of its own.
func newNeighbour() *v1alpha1.AutoscalingRunnerSet {
	neighbour := newTwin()
	neighbour.Spec.RunnerScaleSetName = neighbour.Name
	return neighbour
}

// loseState has GitHub forget all scale sets and begin again with id 1, as a restored or restarted server does.
func (g *fakeGitHub) loseState() {
	g.Lock()
	defer g.Unlock()
	g.Sets, g.NextID = map[string]map[int]actions.RunnerScaleSet{}, 1
}

// reportLost has the listeners report that their scale sets are gone.
func (f *fixture) reportLost() {
	f.Helper()
	for _, runnerSet := range f.runnerSets() {
		since := metav1.Now()
		runnerSet.Status.Listener = &v1alpha1.ListenerStatus{State: "Retrying", Reason: v1alpha1.ReasonScaleSetNotFound,
			Since: &since}
		f.updateStatus(&runnerSet)
	}
}

// passBoth runs passes of both sets for a while.
func (f *fixture) passBoth(length time.Duration) {
	f.Helper()
	for end := time.Now().Add(length); time.Now().Before(end); {
		controllertest.Reconcile(f, f.controller, twinKey)
		controllertest.Reconcile(f, f.controller, setKey)
		controllertest.Elapse(2 * time.Second)
	}
}

// wantOwnScaleSets fails unless both sets are registered under their own names and GitHub has nothing else.
func (f *fixture) wantOwnScaleSets() {
	f.Helper()
	there := f.github.Sets[address]
	for _, set := range []*v1alpha1.AutoscalingRunnerSet{f.set(), f.twin()} {
		registration := set.Status.Registration
		if registration == nil || registration.Name != set.Name || there[registration.ID].Name != set.Name ||
			len(there) != 2 {
			f.Errorf("registration of %s = %+v, on GitHub %+v", set.Name, registration, there)
		}
		if meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionStalled) {
			f.Errorf("%s is stalled", set.Name)
		}
	}
}

// lagging answers the creation of the first set's scale set last.
type lagging struct{ *fakeGitHub }

func (g lagging) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	github, err := g.fakeGitHub.GitHub(ctx, reference)
	if err != nil {
		return nil, err
	}
	return laggingAt{github.(controllertest.ScaleSetsAt)}, nil
}

type laggingAt struct{ controllertest.ScaleSetsAt }

func (g laggingAt) CreateRunnerScaleSet(
	ctx context.Context, wanted *actions.RunnerScaleSet,
) (*actions.RunnerScaleSet, error) {
	if wanted.Name == setKey.Name {
		<-time.After(3 * time.Millisecond)
	}
	return g.ScaleSetsAt.CreateRunnerScaleSet(ctx, wanted)
}

// TestSetsOfAGitHubThatLostItsStateAreRegisteredAgain: each is given the id that the other has recorded.
func TestSetsOfAGitHubThatLostItsStateAreRegisteredAgain(t *testing.T) {
	for name, lacksReadByID := range map[string]int{"": 0, "without the call that reads by id": 404} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.LacksReadByID = lacksReadByID
				f.create(newSet())
				f.settle()
				f.create(newNeighbour())
				f.settleBoth()
				f.wantOwnScaleSets()
				f.github.loseState()
				f.way.Connections = lagging{f.github}
				f.reportLost()
				f.passBoth(2 * time.Minute)
				f.wantOwnScaleSets()
				f.github.Made()
				f.passBoth(10 * time.Minute)
				if calls := f.github.Made(); len(calls) > 8 {
					t.Errorf("%d calls in ten minutes at rest: %q", len(calls), calls)
				}
			})
		})
	}
}

// TestNewSetIsGivenTheIDOfALostScaleSet: what GitHub has just created is nobody else's, and the other set looks again.
func TestNewSetIsGivenTheIDOfALostScaleSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.github.loseState()
		f.create(newNeighbour())
		f.passBoth(10 * time.Second)
		if got := f.twin().Status.Registration; got == nil || got.ID != 1 {
			t.Errorf("registration of the new set = %+v, want the scale set that was created", got)
		}
		f.passBoth(2 * holderInterval)
		f.wantOwnScaleSets()
	})
}

// TestScaleSetOfADeletedOwnerIsTakenOverSoon: the user was told that it is in use, and has uninstalled the owner. The
// queue of jobs stays.
func TestScaleSetOfADeletedOwnerIsTakenOverSoon(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.create(newTwin())
		f.passBoth(10 * time.Minute) // the longest pause between tries
		f.github.Made()
		f.delete()
		f.settle()
		f.passBoth(holderInterval)
		if got := f.twin().Status.Registration; got == nil || got.ID != 1 || !f.gone() ||
			len(f.github.Sets[address]) != 1 {
			t.Errorf("registration %+v, on GitHub %+v", got, f.github.Sets[address])
		}
	})
}
