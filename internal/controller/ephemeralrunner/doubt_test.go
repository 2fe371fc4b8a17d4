package ephemeralrunner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Where the cache's word would have consequences the pod itself is read.

const readsPod = "get status Pod"

func evict(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no memory"}
}

// hang has the pod's deletion wait for its node.
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

// A node that was slow has confirmed the end that the cache still waits for: the job succeeded.
func TestPodThatHangsInALateCacheIsNotTakenForLost(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.setStatus(hasReportedJob)
		f.settle()
		f.hang()
		shown := f.pod()
		f.setPod(exits(0))
		f.controller.options.Client = staleCache{f.api, f.runner(), shown}
		f.reconcile()
		f.elapse(stuckAfter)
		f.reconcile()
		f.elapse(settle)
		f.reconcile()
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseSucceeded {
			t.Errorf("status %+v, want Succeeded", status)
		}
	}, newRunner())
}

// The pod of which the cache says that it never started is gone: nobody can tell whether it has started since, so its JIT
// config is not used again.
func TestPodThatIsGoneMayHaveStarted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.reconcile()
		shown := f.pod()
		evict(shown)
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.controller.options.Client = staleCache{f.api, f.runner(), shown}
		f.reconcile()
		f.wantCalls("jit", "remove 101")
	}, newRunner())
}

// One that never started is read once, when that is noted.
func TestPodThatNeverStartedIsReadOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(evict)
		f.settle()
		wantRequest(f, readsPod, 1)
		f.elapse(retryPauses[0])
		f.settle()
		f.wantCalls("jit")
		if f.pod() == nil {
			t.Error("there is no second pod")
		}
	}, newRunner())
}

// Where the Role allows no such read the cache's word has to do.
func TestPodThatMayNotBeReadIsTakenAsItIsShown(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.api.refuse = map[string]error{readsPod: apierrors.NewForbidden(corev1.Resource("pods/status"), name, nil)}
		f.setPod(evict)
		f.settle()
		if len(f.runner().Status.Failures) != 1 {
			t.Errorf("failures %v, want one", f.runner().Status.Failures)
		}
	}, newRunner())
}

// Somebody else's Secret is neither overwritten nor deleted, also by a manager that has not met it yet.
func TestSecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	for title, restart := range map[string]bool{"one manager": false, "another manager at the end": true} {
		t.Run(title, func(t *testing.T) {
			stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"theirs": {1}}}
			inBubble(t, func(f *fixture) {
				f.reconcile()
				if restart {
					f.restart()
					f.delete()
				}
				f.settle()
				if f.runner() != nil {
					t.Error("the runner keeps the name of a stranger's Secret")
				}
				if secret := f.secret(); secret == nil || len(secret.Data) != 1 {
					t.Errorf("the stranger's Secret is %+v", secret)
				}
				if !restart {
					f.wantEvent("SecretNameTaken")
				}
			}, newRunner(), stranger)
		})
	}
}
