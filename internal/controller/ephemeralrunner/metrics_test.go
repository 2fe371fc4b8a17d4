package ephemeralrunner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

const reasonPulling = "ContainerCreating"

// measured returns a fixture's runner in a scale set that no other test measures.
func measured(scaleSet string) *v1alpha1.EphemeralRunner {
	return newRunner(func(r *v1alpha1.EphemeralRunner) { r.Labels[v1alpha1.LabelScaleSetName] = scaleSet })
}

func pulls(p *corev1.Pod) {
	p.Spec.NodeName = "node"
	p.Status.Conditions = nil
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.RunnerContainerName,
		State: waitingFor(reasonPulling)}}
}

// podsPending and secondsPending return what the manager's metrics say of pods that wait for a reason.
func podsPending(t *testing.T, scaleSet, reason string) float64 {
	t.Helper()
	return controllertest.Value(t, "gha_controller_pending_pods",
		prometheus.Labels{"name": scaleSet, "namespace": namespace, "reason": reason})
}

func secondsPending(t *testing.T, scaleSet, reason string) float64 {
	t.Helper()
	return controllertest.Value(t, "gha_controller_pod_pending_seconds_total",
		prometheus.Labels{"name": scaleSet, "namespace": namespace, "reason": reason})
}

// startsCounted returns the number of starts that were measured for the scale set.
func startsCounted(t *testing.T, scaleSet string) float64 {
	t.Helper()
	return controllertest.Value(t, "gha_controller_runner_startup_seconds",
		prometheus.Labels{"name": scaleSet, "namespace": namespace})
}

func TestWaitsAreMeasuredByReason(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(unscheduled)
		f.settle()
		if got := podsPending(t, "waits", "Unschedulable"); got != 1 {
			t.Errorf("%g pods are unschedulable, want 1", got)
		}
		f.elapse(30 * time.Second)
		f.setPod(pulls)
		f.settle()
		f.elapse(12 * time.Second)
		f.setPod(runs)
		f.settle()
		for reason, seconds := range map[string]float64{"Unschedulable": 30, reasonPulling: 12} {
			if got := secondsPending(t, "waits", reason); got != seconds {
				t.Errorf("%s: %g s, want %g", reason, got, seconds)
			}
			if got := podsPending(t, "waits", reason); got != 0 {
				t.Errorf("%s: %g pods wait still", reason, got)
			}
		}
		if got := startsCounted(t, "waits"); got != 1 {
			t.Errorf("%g starts were measured, want 1", got)
		}
		setmetrics.Delete(types.NamespacedName{Namespace: namespace, Name: "waits"})
		if left := controllertest.Series(t, "gha_controller_pod_pending_seconds_total",
			prometheus.Labels{"name": "waits", "namespace": namespace}); len(left) > 0 {
			t.Errorf("series of a deleted set are still there: %v", left)
		}
	}, measured("waits"))
}

// A runner that was idle for long and whose pod was recreated has not taken that long to start.
func TestOnlyTheFirstStartIsMeasured(t *testing.T) {
	for title, test := range map[string]struct {
		failures map[string]metav1.Time
		want     float64
	}{
		"first pod":  {nil, 1},
		"second pod": {map[string]metav1.Time{"former-pod": {}}, 0},
	} {
		t.Run(title, func(t *testing.T) {
			runner := measured("starts " + title)
			runner.Status.Failures = test.failures
			inBubble(t, func(f *fixture) {
				defer setmetrics.Delete(types.NamespacedName{Namespace: namespace, Name: "starts " + title})
				f.started()
				if got := startsCounted(t, "starts "+title); got != test.want {
					t.Errorf("%g starts were measured, want %g", got, test.want)
				}
			}, runner)
		})
	}
}

func TestAPodThatIsGoneWaitsNoMore(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(unscheduled)
		f.settle()
		f.delete()
		for range 3 {
			f.settle()
			f.elapse(time.Minute)
		}
		if f.runner() != nil {
			t.Fatal("the runner is still there")
		}
		if got := podsPending(t, "goes", "Unschedulable"); got != 0 {
			t.Errorf("%g pods wait, want none", got)
		}
	}, measured("goes"))
}

// Whoever may write the status of pods can't create any number of series.
func TestUnknownReasonsOfWaitsShareASeries(t *testing.T) {
	inBubble(t, func(f *fixture) {
		defer setmetrics.Delete(types.NamespacedName{Namespace: namespace, Name: "forges"})
		series := func() int {
			return len(controllertest.Series(t, "gha_controller_pending_pods",
				prometheus.Labels{"name": "forges", "namespace": namespace}))
		}
		f.settle()
		before := series()
		for i := range 100 {
			f.setPod(func(p *corev1.Pod) {
				pulls(p)
				p.Status.ContainerStatuses[0].State = waitingFor(fmt.Sprint("Forged", i))
			})
			f.reconcile()
		}
		if count := series() - before; count != 1 {
			t.Errorf("%d series were added, want one", count)
		}
	}, measured("forges"))
}
