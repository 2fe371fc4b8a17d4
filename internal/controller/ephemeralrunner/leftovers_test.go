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

// A policy forbids the deletion of the runner's Secret: the runner is deleted all the same, and what it owns is collected.
func TestRunnerGoesThoughItMayNotDeleteWhatItOwns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.finishedWithHooks()
		f.api.refuse = map[string]error{"delete Secret": apierrors.NewForbidden(secrets, name, errors.New("policy"))}
		f.settle()
		if f.runner() != nil {
			t.Errorf("it is left: %s", f.api.sent())
		}
		f.wantCalls() // its job has used the registration up
	}, newRunner(withHooks))
}

// An API server that has just started refuses for a moment, and what hooks made has no owner whose end would delete it.
func TestWhatHooksMadeIsLeftOnlyAfterALastingRefusal(t *testing.T) {
	for _, request := range []string{"list SecretList", "list PodList"} {
		t.Run(request, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.finishedWithHooks()
				f.api.refuse = map[string]error{request: apierrors.NewForbidden(secrets, name, errors.New("policy"))}
				began := time.Now()
				for f.runner() != nil && time.Since(began) < time.Minute {
					_, _ = f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: runnerKey}) // errors are the point of it
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
