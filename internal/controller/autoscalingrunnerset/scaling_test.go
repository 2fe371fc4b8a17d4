package autoscalingrunnerset_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// want has the listener publish jobs, and the runner set decide that there is to be a runner for each.
func (f *fixture) want(runners int) {
	f.Helper()
	runnerSet := f.runnerSets()[0]
	runnerSet.Spec.AssignedJobs = runners
	if err := f.client.Update(f.Context(), &runnerSet); err != nil {
		f.Fatal(err)
	}
	f.decide(runners)
}

// decide has the runner set decide how many runners there are to be.
func (f *fixture) decide(runners int) {
	f.Helper()
	runnerSet := f.runnerSets()[0]
	runnerSet.Status.Desired = &runners
	f.updateStatus(&runnerSet)
}

// A burst has one Event when it begins and one when a minute is over, with the numbers of that moment.
func TestScalingIsToldWithNumbersOnceAMinute(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.want(0)
		f.settle()
		f.events()
		f.want(2)
		f.settle()
		if told := f.events(); len(told) != 1 ||
			!strings.Contains(told[0], "ScaledUp From 0 to 2 runners for 2 assigned jobs") {
			t.Errorf("told %q, want one Event about 0 to 2", told)
		}
		for _, runners := range []int{5, 3, 1} {
			f.want(runners)
			f.settle()
			controllertest.Elapse(10 * time.Second)
		}
		if told := f.events(); len(told) != 0 {
			t.Errorf("told %q within a minute of the last", told)
		}
		controllertest.Elapse(scalingEventInterval)
		f.settle()
		if told := f.events(); len(told) != 1 || !strings.Contains(told[0], "ScaledDown From 2 to 1 runners") {
			t.Errorf("told %q, want one Event about 2 to 1", told)
		}
	})
}

// What the listener asks for and the numbers of the spec are the runner set's to judge; until it has, nothing is said.
func TestDesiredRunnersAreThoseThatTheRunnerSetHasDecided(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		runnerSet := f.runnerSets()[0]
		runnerSet.Spec.Replicas = 7
		if err := f.client.Update(f.Context(), &runnerSet); err != nil {
			f.Fatal(err)
		}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MinRunners, s.Spec.MaxRunners = new(5), new(30) })
		f.settle()
		if desired := f.set().Status.DesiredRunners; desired != 0 {
			t.Errorf("%d desired before the runner set has decided, want 0", desired)
		}
		f.decide(0)
		f.settle()
		f.events()
		f.decide(20)
		f.settle()
		if told := f.events(); len(told) != 1 ||
			!strings.Contains(told[0], "ScaledUp From 0 to 20 runners for 0 assigned jobs") {
			t.Errorf("told %q, want one Event about 0 to 20", told)
		}
		if desired := f.set().Status.DesiredRunners; desired != 20 {
			t.Errorf("%d desired, want 20", desired)
		}
	})
}

func TestEventNamesTheLimit(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MaxRunners = new(4) })
		f.want(0)
		f.settle()
		f.want(1)
		f.settle()
		controllertest.Elapse(scalingEventInterval)
		f.events()
		f.want(4)
		f.settle()
		const want = "Normal ScaledUp From 1 to 4 runners for 4 assigned jobs; maxRunners of 4 allows no more"
		if told := f.events(); !slices.Contains(told, want) {
			t.Errorf("told %q, want %q among it", told, want)
		}
	})
}

func TestTurnsAreToldOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.settle()
		wantEvent(t, f.events(), reasonReady)
		runnerSet, since := f.runnerSets()[0], metav1.Now()
		runnerSet.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying,
			Reason:  "RateLimited",
			Message: "until noon", Since: &since}
		f.updateStatus(&runnerSet)
		f.settle()
		wantEvent(t, f.events(), "RateLimited")
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerGroup = "absent" })
		f.settle()
		wantEvent(t, f.events(), v1alpha1.ReasonRunnerGroupNotFound)
		f.settle()
		if told := f.events(); len(told) > 0 {
			t.Errorf("told again: %q", told)
		}
	})
}

// limitsShown returns the reasons that the metric shows for the set.
func limitsShown(t *testing.T) (reasons []string) {
	t.Helper()
	ofTheSet := prometheus.Labels{"name": setKey.Name, "namespace": setKey.Namespace}
	for _, series := range controllertest.Series(t, "gha_controller_scale_set_limited", ofTheSet) {
		if series.GetGauge().GetValue() == 1 {
			reasons = append(reasons, controllertest.Labels(series)["reason"])
		}
	}
	return reasons
}

// What limits the set has one series and one Event for each change, however the number of jobs goes up and down; a new
// manager tells nothing again.
func TestWhatLimitsTheSetIsToldOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		conditions.Unpublish(setKey) // what other tests have shown
		f.working()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MinRunners, s.Spec.MaxRunners = nil, new(3) })
		f.settle()
		f.events()
		limits := func(wanted ...string) {
			f.Helper()
			if got := limitsShown(t); !slices.Equal(got, wanted) {
				f.Errorf("shown %q, want %q", got, wanted)
			}
		}
		told := func(wanted ...string) {
			f.Helper()
			got := slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, "LimitChanged") })
			if len(got) != len(wanted) {
				f.Fatalf("told %q, want %q", got, wanted)
			}
			for i, want := range wanted {
				if !strings.Contains(got[i], want) {
					f.Errorf("told %q, want %q", got[i], want)
				}
			}
		}
		limits()
		for range 20 { // a job ends, and the next one comes
			f.want(3)
			f.settle()
			controllertest.Elapse(20 * time.Second)
			f.want(2)
			f.settle()
			controllertest.Elapse(20 * time.Second)
		}
		told("MaxRunnersReached: maxRunners of 3 is reached")
		limits(v1alpha1.ReasonMaxRunnersReached)
		f.want(3)
		f.settle()
		f.restart()
		f.settle()
		told()
		limits(v1alpha1.ReasonMaxRunnersReached)
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Annotations = map[string]string{v1alpha1.AnnotationDrained: "true"}
		})
		f.settle()
		told()
		controllertest.Elapse(time.Minute)
		f.settle()
		told("now is Drained: the annotation")
		limits(v1alpha1.ReasonDrained)
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Annotations, s.Spec.MaxRunners = nil, nil })
		f.settle()
		controllertest.Elapse(time.Minute)
		f.settle()
		told("Nothing limits the scale set any more; until now: Drained")
		limits()
	})
}
