package ephemeralrunner

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
)

// A policy forbids deleting the runner's Secret: the runner is removed nevertheless, and garbage collection deletes what it
// owns.
func TestRunnerIsRemovedThoughItsSecretMayNotBeDeleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.finishedWithHooks()
		f.api.refuse = map[string]error{"delete Secret": apierrors.NewForbidden(secrets, name, errors.New("policy"))}
		f.settle()
		if f.runner() != nil {
			t.Errorf("it is left: %s", f.api.sent())
		}
		f.wantCalls() // its job has used up the registration
	}, newRunner(withHooks))
}

// An API server that has just started refuses for a moment, and what hooks created has no owner whose end would delete it.
func TestWhatHooksCreatedIsLeftOnlyAfterALastingRefusal(t *testing.T) {
	for _, request := range []string{"list SecretList", "list PodList"} {
		t.Run(request, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.finishedWithHooks()
				f.api.refuse = map[string]error{request: apierrors.NewForbidden(secrets, name, errors.New("policy"))}
				began := time.Now()
				for f.runner() != nil && time.Since(began) < time.Minute {
					_, _ = f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: runnerKey}) // errors are expected here
					f.elapse(time.Second)
				}
				if took := time.Since(began); took < apiaccess.ForbiddenTimeout || took > 2*apiaccess.ForbiddenTimeout {
					t.Errorf("it went after %s: %s", took, f.api.sent())
				}
				f.wantEvent("HookResourcesLeft")
			}, newRunner(withHooks))
		})
	}
}

func withHooks(r *v1alpha1.EphemeralRunner) {
	r.Spec.PodSpec.Containers[0].Env = []corev1.EnvVar{{Name: envContainerHooks, Value: "/hooks"}}
}

func (f *fixture) finishedWithHooks() {
	f.Helper()
	f.started()
	f.setStatus(jobDone)
	f.setPod(exits(0))
}
