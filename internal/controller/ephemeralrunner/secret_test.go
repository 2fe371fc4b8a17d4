package ephemeralrunner_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// What happens if the API server does not accept the runner's Secret.

var secrets = schema.GroupResource{Resource: "secrets"}

// A Secret that is refused for long costs GitHub one registration, whoever refuses it, and the runner says why it
// waits.
func TestRefusedSecretKeepsItsRegistration(t *testing.T) {
	for title, test := range map[string]struct {
		refusal error
		reason  string
	}{
		"quota":   {apierrors.NewForbidden(secrets, name, errors.New("exceeded quota: q, requested: secrets=1")), v1alpha1.ConditionQuotaExceeded},
		"role":    {apierrors.NewForbidden(secrets, name, errors.New("may not create it")), "SecretRefused"},
		"webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), "SecretRefused"},
		"nobody":  {errors.New("connection refused"), "APIServerUnavailable"},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.api.refuse = map[string]error{"create Secret": test.refusal}
				for range 8 {
					f.settle()
					f.elapse(rules.LongestRetryBackoff)
				}
				status := f.runner().Status
				quota := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionQuotaExceeded)
				if status.Reason != test.reason || quota != (test.reason == v1alpha1.ConditionQuotaExceeded) {
					t.Errorf("status %+v, want %s", status, test.reason)
				}
				f.wantCalls("jit")
				f.wantEvent(test.reason)
				f.api.refuse = nil
				f.elapse(rules.LongestRetryBackoff)
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

// A registration that was kept for lack of a Secret is good for one start: the next attempt gets another.
func TestRegistrationThatWasKeptServesOneStart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Secret": apierrors.NewInternalError(errors.New("etcd"))}
		f.settle()
		f.api.refuse = nil
		f.elapse(rules.FirstRetryBackoff)
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setPod(exits(1))
		f.settle()
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// After there is a Secret, the JIT config is nowhere else: without the Secret the registration is void.
func TestRegistrationIsNotKeptBesideItsSecret(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Secret": apierrors.NewInternalError(errors.New("etcd"))}
		f.settle()
		f.api.refuse = nil
		f.elapse(rules.FirstRetryBackoff)
		f.settle()
		if err := f.api.WithWatch.Delete(t.Context(), f.secret()); err != nil {
			t.Fatal(err)
		}
		f.setPod(evict)
		f.settle()
		f.elapse(rules.RetryBackoff[0])
		f.settle() // the name is taken: by ourselves, as GitHub says
		f.wantCalls("jit", "jit", "find", "remove 101", "jit")
		f.wantPodOf("102")
	}, newRunner())
}

// A new manager finds the name taken and no JIT config: that costs one more registration, not one per try.
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

// Somebody else's Secret is neither overwritten nor deleted, not even by a manager that has never seen it before.
func TestSecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	for title, restart := range map[string]bool{"one manager": false, "another manager at the end": true} {
		t.Run(title, func(t *testing.T) {
			stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Data: map[string][]byte{"theirs": {1}}}
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
