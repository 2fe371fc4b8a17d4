package autoscalingrunnerset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// office opens in ten minutes for ten minutes, every day.
func office() v1alpha1.Schedule {
	opens := time.Now().UTC().Truncate(time.Minute).Add(10 * time.Minute)
	return v1alpha1.Schedule{
		Name: "office", Schedule: fmt.Sprintf("%d %d * * *", opens.Minute(), opens.Hour()),
		Duration:   metav1.Duration{Duration: 10 * time.Minute},
		MinRunners: new(5), MaxRunners: new(20),
	}
}

// inForce fails unless status, runner set and listener have these numbers.
func (f *fixture) inForce(least, most int, open ...string) {
	f.Helper()
	status, runnerSet, listener := f.set().Status, f.runnerSets()[0], f.listeners()[0]
	if status.EffectiveMinRunners != least || *status.EffectiveMaxRunners != most ||
		!slices.Equal(status.ActiveSchedules, open) || status.EffectiveUntil == nil {
		f.Errorf("status %+v", status.EffectiveCapacity)
	}
	if *runnerSet.Spec.MaxRunners != most || listener.Spec.MinRunners != least || listener.Spec.MaxRunners != most {
		f.Errorf("the runner set may have %d, the listener has %d and %d", *runnerSet.Spec.MaxRunners,
			listener.Spec.MinRunners, listener.Spec.MaxRunners)
	}
}

// toEdge waits until the pass that the controller asked for, which must come at the next edge at the latest.
func (f *fixture) toEdge() {
	f.Helper()
	edge := f.set().Status.EffectiveUntil.Time
	for time.Now().Before(edge) {
		wait := f.reconcile().RequeueAfter
		if wait <= 0 || time.Now().Add(wait).After(edge.Add(time.Second)) {
			f.Fatalf("at %s the next pass is in %s, and an edge at %s", time.Now(), wait, edge)
		}
		controllertest.Elapse(wait)
	}
}

// Numbers follow a window from edge to edge, and no spec is changed; a manager that starts within a window tells of it
// a single time.
func TestWindowsOpenAndClose(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.MinRunners, s.Spec.MaxRunners, s.Spec.Schedules = new(1), new(8), []v1alpha1.Schedule{office()}
		}))
		f.settle()
		f.listening()
		f.settle()
		f.inForce(1, 8)
		spec := f.set().Spec.DeepCopy()
		f.events()

		f.toEdge()
		f.settle()
		f.inForce(5, 20, "office")
		if told := f.events(); !slices.ContainsFunc(told, func(e string) bool {
			return strings.Contains(e,
				"ScheduleStarted Schedule office has started: schedule office is open; minRunners 5 and maxRunners "+
					"20 are in force until 2000-")
		}) {
			t.Errorf("told %q", told)
		}
		f.wantCondition(v1alpha1.ConditionSchedulesAccepted, metav1.ConditionTrue, "ScheduleOpen")

		f.restart()
		f.settle()
		f.inForce(5, 20, "office")
		if told := f.events(); slices.ContainsFunc(told, func(e string) bool {
			return strings.Contains(e, "Schedule")
		}) {
			t.Errorf("after a restart it tells again: %q", told)
		}

		f.toEdge()
		f.settle()
		f.inForce(1, 8)
		if told := f.events(); !slices.ContainsFunc(told, func(e string) bool {
			return strings.Contains(e, "ScheduleEnded Schedule office has ended: no schedule is open")
		}) {
			t.Errorf("told %q", told)
		}
		if now := f.set().Spec; now.MinRunners == nil || *now.MinRunners != *spec.MinRunners ||
			*now.MaxRunners != *spec.MaxRunners {
			t.Errorf("the spec was changed: %d, %d", *now.MinRunners, *now.MaxRunners)
		}
	})
}

// A schedule that can't be followed is named with its field, the others are in force, and the manager's limit cuts
// last.
func TestRefusedScheduleIsNamed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.change = func(o *autoscalingrunnerset.Options) { o.MaxRunnersPerSet = 12 }
		f.restart()
		right, wrong := office(), office()
		right.Schedule, wrong.Name, wrong.TimeZone = "* * * * *", "night", "Europe/Atlantis"
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.Schedules = []v1alpha1.Schedule{right, wrong}
		}))
		f.settle()
		f.inForce(5, 12, "office")
		f.wantCondition(v1alpha1.ConditionSchedulesAccepted, metav1.ConditionFalse, v1alpha1.ReasonScheduleRefused)
		if told := strings.Join(f.events(), "\n"); !strings.Contains(told, `"night"`) ||
			!strings.Contains(told, "timeZone") {
			t.Errorf("told %s", told)
		}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.Schedules = nil })
		f.settle()
		f.wantCondition(v1alpha1.ConditionSchedulesAccepted, metav1.ConditionTrue, "NoSchedules")
	})
}
