package ephemeralrunner_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// Wherever a stale cache would do harm, the pod is read from the API server.

const readsPod = "get status Pod"

func evict(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no memory"}
}

// hang makes the pod's deletion wait for its node.
func (f *fixture) hang() {
	f.Helper()
	pod := f.pod()
	pod.Finalizers = []string{"test/node"}
	if err := f.api.WithWatch.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	if err := f.api.WithWatch.Delete(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

func wantRequest(f *fixture, request string, want int) {
	f.Helper()
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	got := 0
	for _, sent := range f.api.requests {
		if sent == request {
			got++
		}
	}
	if got != want {
		f.Errorf("%d requests %s, want %d: %v", got, request, want, f.api.requests)
	}
}

// A slow node has confirmed the pod's end, which the cache does not show yet: the job succeeded.
func TestPodThatHangsInALateCacheIsNotTreatedAsLost(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.setStatus(hasReportedJob)
		f.settle()
		f.hang()
		shown := f.pod()
		f.setPod(exits(0))
		f.cache.Client = staleCache{f.api, f.runner(), shown}
		f.reconcile()
		f.elapse(podstatus.StuckTimeout)
		f.reconcile()
		f.elapse(rules.ReportGrace)
		f.reconcile()
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseRunning {
			t.Errorf("status %+v, want Running until the report has had its time", status)
		}
		f.cache.Client = f.api
		f.setStatus(jobDone)
		f.settle()
		if runner := f.runner(); runner != nil && runner.Status.Done() {
			t.Errorf("status %+v, want the runner to be deleted because its job is over", runner.Status)
		}
	}, newRunner())
}

// The pod that, according to the cache, never started is gone. It may have started since, so its JIT config is not
// reused.
func TestPodThatIsGoneMayHaveStarted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.reconcile()
		shown := f.pod()
		evict(shown)
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.cache.Client = staleCache{f.api, f.runner(), shown}
		f.reconcile()
		f.wantCalls("jit", "remove 101")
	}, newRunner())
}

// A pod that never started is read a single time, when that is noticed.
func TestPodThatNeverStartedIsReadOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(evict)
		f.settle()
		wantRequest(f, readsPod, 1)
		f.elapse(rules.RetryBackoff[0])
		f.settle()
		f.wantCalls("jit")
		if f.pod() == nil {
			t.Error("there is no second pod")
		}
	}, newRunner())
}

// If the Role does not allow the read, the cache must do.
func TestPodThatMayNotBeReadIsUsedAsTheCacheShowsIt(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.api.refuse = map[string]error{readsPod: apierrors.NewForbidden(corev1.Resource("pods/status"), name, nil)}
		f.setPod(evict)
		f.settle()
		f.wantAttempts(1, "Evicted")
	}, newRunner())
}
