package autoscalingrunnerset_test

import (
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// The status says what limits the set as soon as it does, whose number it is, and since when: jobs that end and come
// again, and a new manager, change nothing of that.
func TestTheStatusSaysWhatLimitsTheSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		conditions.Unpublish(setKey)
		f.working()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MinRunners, s.Spec.MaxRunners = nil, new(3) })
		f.settle()
		limited := func(kind v1alpha1.LimitKind, reason, words string) (since time.Time) {
			f.Helper()
			by := f.set().Status.LimitedBy
			if by == nil || by.Kind != kind || by.Reason != reason || !strings.Contains(by.Message, words) {
				f.Fatalf("limited by %+v, want %s, %s: %q", by, kind, reason, words)
			}
			return by.Since.Time
		}
		unlimited := func() {
			f.Helper()
			if by := f.set().Status.LimitedBy; by != nil {
				f.Errorf("limited by %+v, want nothing", by)
			}
		}
		unlimited()
		controllertest.Elapse(time.Minute)
		f.want(3)
		f.settle()
		began := limited("Maximum", "MaxRunnersReached", "maxRunners of 3 is reached")
		for range 10 { // a job ends, and the next one comes
			controllertest.Elapse(20 * time.Second)
			f.want(2)
			f.settle()
			unlimited()
			controllertest.Elapse(20 * time.Second)
			f.want(3)
			f.settle()
		}
		f.restart()
		f.settle()
		controllertest.Elapse(time.Minute)
		f.settle()
		if since := limited("Maximum", "MaxRunnersReached", "maxRunners of 3"); !since.Equal(began) {
			t.Errorf("limited since %s, want %s", since, began)
		}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Annotations = map[string]string{v1alpha1.AnnotationDrained: "true"}
		})
		f.settle()
		if since := limited("NoJobs", "Drained", "annotation"); !since.After(began) {
			t.Errorf("drained since %s, which is before it was", since)
		}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Annotations, s.Spec.MaxRunners = nil, nil })
		f.settle()
		controllertest.Elapse(time.Minute)
		f.settle()
		unlimited()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.MaxRunners = new(3) })
		f.settle()
		controllertest.Elapse(time.Minute)
		f.settle()
		if since := limited("Maximum", "MaxRunnersReached", "maxRunners of 3"); !since.After(began) {
			t.Errorf("limited since %s, which is the former time", since)
		}
	})
}
