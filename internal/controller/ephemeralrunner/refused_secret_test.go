package ephemeralrunner

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// What is done about an API server that does not take the runner's Secret.

var secrets = schema.GroupResource{Resource: "secrets"}

// A Secret that is refused for long costs GitHub one registration, whoever refuses it, and the runner says why it waits.
func TestRefusedSecretKeepsItsRegistration(t *testing.T) {
	for title, test := range map[string]struct {
		refusal error
		reason  string
	}{
		"quota":   {apierrors.NewForbidden(secrets, name, errors.New("exceeded quota: q, requested: secrets=1")), v1alpha1.ConditionQuotaExceeded},
		"role":    {apierrors.NewForbidden(secrets, name, errors.New("may not create it")), "SecretRefused"},
		"webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), "SecretRefused"},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.api.refuse = map[string]error{"create Secret": test.refusal}
				for range 8 {
					f.settle()
					f.elapse(longestRetry)
				}
				status := f.runner().Status
				quota := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionQuotaExceeded)
				if status.Reason != test.reason || quota != (test.reason == v1alpha1.ConditionQuotaExceeded) {
					t.Errorf("status %+v, want %s", status, test.reason)
				}
				f.wantCalls("jit")
				f.wantEvent(test.reason)
				f.api.refuse = nil
				f.elapse(longestRetry)
				f.settle()
				f.wantCalls()
				f.wantPodOf("101")
			}, newRunner())
		})
	}
}

// wantPodOf expects Secret and pod of the registration with that id.
func (f *fixture) wantPodOf(id string) {
	f.Helper()
	if secret := f.secret(); secret == nil || string(secret.Data[secretKeyJITConfig]) != "config-"+id {
		f.Errorf("Secret %+v, want the JIT config of registration %s", secret, id)
	}
	if pod := f.pod(); pod == nil || pod.Annotations[v1alpha1.AnnotationRunnerID] != id {
		f.Errorf("pod %+v, want one of registration %s", pod, id)
	}
}

// What was kept for want of a Secret serves one start: the attempt after it has a registration of its own.
func TestRegistrationThatWasKeptServesOneStart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Secret": apierrors.NewInternalError(errors.New("etcd"))}
		f.settle()
		f.api.refuse = nil
		f.elapse(firstRetry)
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setPod(exits(1))
		f.settle()
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// Once there was a Secret the JIT config is nowhere else: whoever deletes the Secret makes it void.
func TestRegistrationIsNotKeptBesideItsSecret(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Secret": apierrors.NewInternalError(errors.New("etcd"))}
		f.settle()
		f.api.refuse = nil
		f.elapse(firstRetry)
		f.settle()
		if err := f.api.WithWatch.Delete(t.Context(), f.secret()); err != nil {
			t.Fatal(err)
		}
		f.setPod(evict)
		f.settle()
		f.elapse(retryPauses[0])
		f.settle() // the name is taken: by ourselves, as GitHub says
		f.wantCalls("jit", "jit", "find", "remove 101", "jit")
		f.wantPodOf("102")
	}, newRunner())
}

// A new manager has nothing but the name, which is taken: that costs it one more registration, and not one for each try.
func TestRefusedSecretCostsANewManagerOneRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Secret": apierrors.NewInternalError(errors.New("etcd"))}
		f.settle()
		f.restart()
		for range 4 {
			f.settle()
			f.elapse(time.Minute)
		}
		f.wantCalls("jit", "jit", "find", "remove 101", "jit")
	}, newRunner())
}
