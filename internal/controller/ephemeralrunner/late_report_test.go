package ephemeralrunner_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// listens writes what the set's condition says of its listener.
func (f *fixture) listens(status metav1.ConditionStatus, since time.Time) {
	f.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	if !controllertest.Read(f, f.api, types.NamespacedName{Namespace: namespace, Name: "set"}, set) {
		f.Fatal("there is no scale set")
	}
	set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: status,
		LastTransitionTime: metav1.NewTime(since)}}
	if err := f.api.Update(f.Context(), set); err != nil {
		f.Fatal(err)
	}
}

// exitsUnreported has a runner exit with 0 whose job's end nobody reports, and its set delete it.
func (f *fixture) exitsUnreported(job string) {
	f.Helper()
	f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status.JobID = job })
	f.settle()
	f.setPod(exits(0))
	f.settle()
	f.elapse(10 * time.Second)
	f.settle()
	f.delete()
	f.settle()
}

// A job ends while its listener is replaced: the runner's object stays for the report that the next session brings, also
// if not even the start of the job was reported, but not for longer than a listener takes to come back.
func TestARunnerStaysForAReportThatItsListenerStillBrings(t *testing.T) {
	for _, job := range []string{"job", ""} {
		set := newSet()
		inBubble(t, func(f *fixture) {
			f.started()
			f.listens(metav1.ConditionFalse, time.Now())
			f.exitsUnreported(job)
			f.elapseMinutes(2)
			runner := f.runner()
			if runner == nil || !runner.Status.Done() {
				t.Fatalf("job %q: the runner is %+v, and has to stay, out of its set's count", job, runner)
			}
			if f.pod() != nil {
				t.Error("its pod is left")
			}
			f.listens(metav1.ConditionTrue, time.Now())
			f.elapse(30 * time.Second)
			f.settle()
			f.setStatus(func(r *v1alpha1.EphemeralRunner) {
				jobDone(r)
				r.Status.JobID, r.Status.JobResult = "job", "succeeded"
			})
			f.settle()
			f.wantGone()
		}, newRunner(), set, controllertest.Origin(set))
	}
}

// Nobody waits for ever, nor for a listener that has been there, nor for one that won't come.
func TestWaitsForReportsEnd(t *testing.T) {
	for title, test := range map[string]struct {
		prepare func(f *fixture)
		minutes int
	}{
		"it doesn't come back": {func(f *fixture) { f.listens(metav1.ConditionFalse, time.Now()) }, 6},
		"it was there":         {func(f *fixture) { f.listens(metav1.ConditionTrue, time.Now().Add(-time.Hour)) }, 0},
		"its set takes no jobs": {func(f *fixture) {
			f.listens(metav1.ConditionFalse, time.Now())
			set := &v1alpha1.AutoscalingRunnerSet{}
			controllertest.Read(f, f.api, types.NamespacedName{Namespace: namespace, Name: "set"}, set)
			set.Spec.MaxRunners = new(0)
			set.Status.EffectiveMaxRunners = new(0)
			if err := f.api.Update(f.Context(), set); err != nil {
				f.Fatal(err)
			}
		}, 0},
	} {
		t.Run(title, func(t *testing.T) {
			set := newSet()
			inBubble(t, func(f *fixture) {
				f.started()
				test.prepare(f)
				f.exitsUnreported("job")
				if test.minutes > 0 {
					f.elapseMinutes(test.minutes)
				}
				f.wantGone()
			}, newRunner(), set, controllertest.Origin(set))
		})
	}
}
