package ephemeralrunner

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
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

func TestWaitsAreMeasuredByReason(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(unscheduled)
		f.settle()
		if got := testutil.ToFloat64(pendingPods.WithLabelValues("waits", namespace, "Unschedulable")); got != 1 {
			t.Errorf("%g pods are unschedulable, want 1", got)
		}
		f.elapse(30 * time.Second)
		f.setPod(pulls)
		f.settle()
		f.elapse(12 * time.Second)
		f.setPod(runs)
		f.settle()
		for reason, seconds := range map[string]float64{"Unschedulable": 30, reasonPulling: 12} {
			if got := testutil.ToFloat64(pendingSeconds.WithLabelValues("waits", namespace, reason)); got != seconds {
				t.Errorf("%s: %g s, want %g", reason, got, seconds)
			}
			if got := testutil.ToFloat64(pendingPods.WithLabelValues("waits", namespace, reason)); got != 0 {
				t.Errorf("%s: %g pods wait still", reason, got)
			}
		}
		if got := testutil.CollectAndCount(startupSeconds); got == 0 {
			t.Error("the start was not measured")
		}
		setmetrics.Delete(types.NamespacedName{Namespace: namespace, Name: "waits"})
		if pendingSeconds.DeleteLabelValues("waits", namespace, reasonPulling) {
			t.Error("a series of a deleted set was still there")
		}
	}, measured("waits"))
}

// A runner that was idle for long and whose pod was recreated has not taken that long to start.
func TestOnlyTheFirstStartIsMeasured(t *testing.T) {
	for title, test := range map[string]struct {
		failures map[string]metav1.Time
		want     int
	}{
		"first pod":  {nil, 1},
		"second pod": {map[string]metav1.Time{"former-pod": {}}, 0},
	} {
		t.Run(title, func(t *testing.T) {
			before := testutil.CollectAndCount(startupSeconds)
			runner := measured("starts " + title)
			runner.Status.Failures = test.failures
			countStart(&world{EphemeralRunner: runner}, noon)
			if got := testutil.CollectAndCount(startupSeconds) - before; got != test.want {
				t.Errorf("%d series were added, want %d", got, test.want)
			}
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
		if got := testutil.ToFloat64(pendingPods.WithLabelValues("goes", namespace, "Unschedulable")); got != 0 {
			t.Errorf("%g pods wait, want none", got)
		}
	}, measured("goes"))
}

// Whoever may write the status of pods can't create any number of series.
func TestUnknownReasonsOfWaitsShareASeries(t *testing.T) {
	before := testutil.CollectAndCount(pendingPods)
	m := &memory{}
	p := &world{pass: &pass{Memory: m, Now: noon}, EphemeralRunner: measured("forges"), pod: &corev1.Pod{}}
	defer setmetrics.Delete(types.NamespacedName{Namespace: p.Labels[v1alpha1.LabelScaleSetNamespace], Name: "forges"})
	for i := range 10_000 {
		p.outcome = rules.Outcome{State: podstatus.State{Phase: podstatus.Pending, Reason: fmt.Sprint("Forged", i)}}
		m.measure(p)
	}
	if count := testutil.CollectAndCount(pendingPods) - before; count != 1 {
		t.Errorf("%d series were added, want one", count)
	}
}
