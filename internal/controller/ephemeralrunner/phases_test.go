package ephemeralrunner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// in returns the time that many seconds after the beginning of a bubble, in the form in which an API server returns it.
func in(seconds int64) *metav1.Time { return new(metav1.Unix(946_684_800+seconds, 0)) }

// waited returns the number of waits for a phase that were observed, and their seconds.
func waited(t *testing.T, scaleSet, phase string) (count uint64, seconds float64) {
	t.Helper()
	for _, series := range controllertest.Series(t, "gha_controller_job_wait_seconds",
		prometheus.Labels{"name": scaleSet, "namespace": namespace, "phase": phase}) {
		count, seconds = series.Histogram.GetSampleCount(), series.Histogram.GetSampleSum()
	}
	return count, seconds
}

// The phases of a wait travel with what is written anyway: the pod's creation, the report that the runner runs, and the
// mark of its job.
func TestPhasesOfAWaitCostNoRequest(t *testing.T) {
	const scaleSet = "phased"
	runner := measured(scaleSet)
	runner.CreationTimestamp = *in(0)
	inBubble(t, func(f *fixture) {
		defer setmetrics.Delete(types.NamespacedName{Namespace: namespace, Name: scaleSet})
		f.settle()
		if got, want := f.pod().Annotations[v1alpha1.AnnotationPhases],
			"created=946684800 registered=946684800"; got != want {
			t.Errorf("the new pod has the phases %q, want %q", got, want)
		}
		f.elapse(30 * time.Second)
		f.setPod(func(p *corev1.Pod) {
			runs(p)
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
					LastTransitionTime: *in(5)})
			p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: *in(29)}
		})
		f.settle()
		want := &v1alpha1.RunnerPhases{Created: in(0), Registered: in(0), Placed: in(5), ImagePulled: in(29),
			ContainerUp: in(29)}
		if diff := cmp.Diff(want, f.runner().Status.Phases); diff != "" {
			t.Errorf("phases of a runner that is up (-want +got):\n%s", diff)
		}
		f.setStatus(func(r *v1alpha1.EphemeralRunner) {
			startJob(r)
			r.Status.Phases.Queued, r.Status.Phases.Assigned, r.Status.Phases.Started = in(-20), in(-10), in(31)
		})
		f.settle()
		text := "queued=946684780 assigned=946684790 created=946684800 registered=946684800 placed=946684805 " +
			"imagePulled=946684829 containerUp=946684829 started=946684831"
		if got := f.pod().Annotations[v1alpha1.AnnotationPhases]; got != text {
			t.Errorf("the pod of a job has the phases\n%q, want\n%q", got, text)
		}
		f.restart() // the next manager measures nothing again
		f.setPod(exits(0))
		f.settle()
		f.setStatus(jobDone)
		f.settle()
		requests := "create Secret, create Pod, patch status EphemeralRunner, patch Pod, get Secret, delete Secret, " +
			"delete Pod, "
		if got := f.api.sent(); !strings.HasPrefix(got, requests) || strings.Count(got, "patch status") != 1 {
			t.Errorf("requests\n%s, want\n%s…", got, requests)
		}
		for phase, want := range map[string]float64{"assigned": 10, "created": 10, "registered": 0, "placed": 5,
			"imagePulled": 24, "containerUp": 0, "started": 2} {
			if count, seconds := waited(t, scaleSet, phase); count != 1 || seconds != want {
				t.Errorf("%s: %d observations, %g s; want 1, %g s", phase, count, seconds, want)
			}
		}
	}, runner)
}

// A job may be seen before its pod is seen to run: the wait is measured when both are.
func TestAWaitIsMeasuredWhenThePodIsSeen(t *testing.T) {
	const scaleSet = "late"
	inBubble(t, func(f *fixture) {
		defer setmetrics.Delete(types.NamespacedName{Namespace: namespace, Name: scaleSet})
		f.settle()
		f.setStatus(func(r *v1alpha1.EphemeralRunner) {
			startJob(r)
			r.Status.Phases = &v1alpha1.RunnerPhases{Queued: in(0), Started: in(9)}
		})
		f.settle()
		if count, _ := waited(t, scaleSet, "started"); count != 0 {
			t.Errorf("%d waits were measured although nobody knows when the container started", count)
		}
		f.setPod(func(p *corev1.Pod) {
			runs(p)
			p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: *in(8)}
		})
		f.settle()
		if count, seconds := waited(t, scaleSet, "started"); count != 1 || seconds != 1 {
			t.Errorf("%d observations, %g s; want 1 of 1 s", count, seconds)
		}
	}, measured(scaleSet))
}
