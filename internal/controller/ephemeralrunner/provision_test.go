package ephemeralrunner_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
)

var pods = schema.GroupResource{Resource: "pods"}

// terminating is the API server's refusal to create something in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(pods, name, errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func storedSecret(owner *v1alpha1.EphemeralRunner) *corev1.Secret {
	return newSecret(owner, 42, "stored")
}

// Another manager has left a registration and a Secret, and perhaps a container has started with them: GitHub is asked.
func TestRegistrationOfAFormerManagerIsNotUsed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.registered[name] = actions.RunnerReference{ID: 42, Name: name, RunnerScaleSetID: scaleSet}
		f.settle()
		f.elapse(rules.FirstRetryBackoff)
		f.settle()
		f.wantCalls("jit", "find", "remove 42", "jit")
		if got := f.pod().Annotations[v1alpha1.AnnotationRunnerID]; got != "101" {
			t.Errorf("runner id %s, want a new one", got)
		}
		if got := string(f.secret().Data[secretKeyJITConfig]); got != "config-101" {
			t.Errorf("JIT config %q, want the new one", got)
		}
	}, newRunner(), storedSecret(newRunner()))
}

func TestRegistrationOfAFormerManagerWithAJobFailsTheRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.registered[name] = actions.RunnerReference{ID: 42, Name: name, RunnerScaleSetID: scaleSet}
		f.github.remove = actions.ErrJobStillRunning
		f.settle()
		status := f.runner().Status
		if status.Phase != v1alpha1.EphemeralRunnerPhaseFailed || status.Reason != v1alpha1.ReasonPodLost ||
			!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining) {
			t.Errorf("status %+v, want Failed with a job by GitHub's word", status)
		}
	}, newRunner(), storedSecret(newRunner()))
}

// The answer to the registration was lost: the name is ours, but nobody has the JIT config.
func TestNameTakenByOurselvesWithoutASecret(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.lost = true
		f.settle()
		if f.pod() != nil {
			t.Fatal("a pod without a registration")
		}
		f.elapse(rules.FirstRetryBackoff)
		f.settle()
		f.elapse(2 * rules.FirstRetryBackoff)
		f.settle()
		f.wantCalls("jit", "jit", "find", "remove 101", "jit")
		if got := string(f.secret().Data[secretKeyJITConfig]); got != "config-102" {
			t.Errorf("JIT config %q", got)
		}
	}, newRunner())
}

// A Secret that an earlier runner of the same name has left is not a registration of this one; it is overwritten.
func TestSecretOfAFormerRunnerIsNotUsed(t *testing.T) {
	former := newRunner(func(r *v1alpha1.EphemeralRunner) { r.UID = "former" })
	inBubble(t, func(f *fixture) {
		f.settle()
		secret := f.secret()
		if got := string(secret.Data[secretKeyJITConfig]); got != "config-101" {
			t.Errorf("JIT config %q, want the new one", got)
		}
		if !metav1.IsControlledBy(secret, f.runner()) {
			t.Error("the Secret does not belong to the runner")
		}
	}, newRunner(), storedSecret(former))
}

func TestNameTakenBySomebodyElse(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.registered[name] = actions.RunnerReference{ID: 42, Name: name, RunnerScaleSetID: scaleSet + 1}
		f.settle()
		if f.runner() != nil {
			t.Error("the runner keeps a name that is not its own")
		}
		if _, there := f.github.registered[name]; !there {
			t.Error("somebody else's runner was removed")
		}
		f.wantEvent("RunnerNameTaken")
	}, newRunner())
}

// What GitHub says about the name may be the only hint at what is wrong.
func TestNameTakenByNobodyIsReportedInGitHubsWords(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.jit = fmt.Errorf("%w: the pool has 10000 runners", actions.ErrRunnerExists)
		f.settle()
		if got := f.runner().Status.Message; !strings.Contains(got, "the pool has 10000 runners") ||
			!strings.Contains(got, "finds no runner named "+name) {
			t.Errorf("message %q", got)
		}
	}, newRunner())
}

func TestPodNameTakenBySomebodyElse(t *testing.T) {
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	inBubble(t, func(f *fixture) {
		f.settle()
		if f.runner() != nil {
			t.Error("the runner keeps the name of a stranger's pod")
		}
		if f.pod() == nil {
			t.Error("the stranger's pod was deleted")
		}
		f.wantCalls("jit", "remove 101")
	}, newRunner(), stranger)
}

func TestRegistrationIsRepeatedWithPauses(t *testing.T) {
	limited := &actions.RateLimitedError{Err: errGitHubAway}
	maintained := &actions.Error{StatusCode: http.StatusServiceUnavailable}
	for title, test := range map[string]struct {
		failure error
		pause   time.Duration
		reason  string
	}{
		"5xx":          {errGitHubAway, rules.FirstRetryBackoff, "RegistrationFailed"},
		"429":          {limited, time.Hour, "RateLimited"},
		"maintenance":  {maintained, 5 * time.Minute, "RegistrationFailed"},
		"refused":      {actions.ErrUnauthorized, rules.FirstRetryBackoff, v1alpha1.ReasonUnauthorized},
		"no scale set": {actions.ErrScaleSetNotFound, rules.FirstRetryBackoff, "ScaleSetNotFound"},
		"no secret":    {&credentials.MissingError{Kind: "Secret", Name: "github"}, rules.FirstRetryBackoff, "CredentialsMissing"},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				limited.Until, maintained.RetryAt = time.Now().Add(time.Hour), time.Now().Add(5*time.Minute)
				f.github.jit = test.failure
				f.settle()
				f.wantCalls("jit")
				status := f.runner().Status
				if status.Phase != v1alpha1.EphemeralRunnerPhasePending || status.Reason != test.reason {
					t.Errorf("status %+v, want Pending for %s", status, test.reason)
				}
				f.wantEvent(test.reason)
				f.github.jit = nil
				result := f.reconcile()
				if result.RequeueAfter != test.pause {
					t.Errorf("requeued after %s, want %s", result.RequeueAfter, test.pause)
				}
				f.elapse(test.pause)
				f.settle()
				f.wantCalls("jit")
				if f.pod() == nil {
					t.Error("no pod after the trouble has ended")
				}
			}, newRunner())
		})
	}
}

// GitHub's messages differ from call to call; that is no reason to write a status and an Event for each.
func TestOtherWordsForTheSameReasonAreNotReported(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for i := range 4 {
			f.github.jit = errors.New(strings.Repeat("x", i+1))
			f.settle()
			f.elapse(rules.LongestRetryBackoff)
		}
		f.wantEvent("RegistrationFailed")
		if got := strings.Count(f.api.sent(), "patch status"); got != 1 {
			t.Errorf("%d writes of the status, want 1", got)
		}
	}, newRunner())
}

func TestRefusedPods(t *testing.T) {
	invalidPod := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, nil)
	for title, test := range map[string]struct {
		refusal error
		phase   v1alpha1.EphemeralRunnerPhase
		reason  string
		calls   []string
		retries bool
	}{
		"invalid": {invalidPod, v1alpha1.EphemeralRunnerPhaseFailed, "InvalidPod", []string{"jit", "remove 101"}, false},
		"quota":   {apierrors.NewForbidden(pods, name, errors.New("exceeded quota: q")), v1alpha1.EphemeralRunnerPhasePending, "QuotaExceeded", []string{"jit"}, true},
		"policy":  {apierrors.NewForbidden(pods, name, errors.New("violates a policy")), v1alpha1.EphemeralRunnerPhasePending, "PodForbidden", []string{"jit"}, true},
		"server":  {apierrors.NewInternalError(errors.New("etcd")), v1alpha1.EphemeralRunnerPhasePending, "PodRefused", []string{"jit"}, true},
		"proxy's page": {apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "POST", pods, name,
			"<html>", 0,
			true),
			v1alpha1.EphemeralRunnerPhasePending, "APIServerUnavailable", []string{"jit"}, true},
		"no answer":   {errors.New("connection refused"), v1alpha1.EphemeralRunnerPhasePending, "APIServerUnavailable", []string{"jit"}, true},
		"terminating": {terminating(), "", "", []string{"jit"}, false},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.api.refuse = map[string]error{"create Pod": test.refusal}
				f.settle()
				status := f.runner().Status
				if status.Phase != test.phase || status.Reason != test.reason {
					t.Errorf("status %+v, want %s for %s", status, test.phase, test.reason)
				}
				if quota := meta.IsStatusConditionTrue(status.Conditions,
					v1alpha1.ConditionQuotaExceeded); quota != (test.reason == "QuotaExceeded") {
					t.Errorf("condition QuotaExceeded is %t", quota)
				}
				f.wantCalls(test.calls...)
				f.api.refuse = nil
				f.elapse(rules.FirstRetryBackoff)
				f.settle()
				f.wantCalls() // what is registered is not registered again
				if made := f.pod() != nil; made != test.retries {
					t.Errorf("pod created: %t, want %t", made, test.retries)
				}
			}, newRunner())
		})
	}
}

// After an outage of minutes a job must not wait as long again.
func TestPodIsCreatedWithinSecondsOfTheAPIServersReturn(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Pod": errors.New("connection refused")}
		for range 30 {
			f.elapse(rules.LongestAwayBackoff)
			f.settle()
		}
		f.api.refuse = nil
		f.elapse(rules.LongestAwayBackoff)
		if f.settle(); f.pod() == nil {
			t.Errorf("no pod %s after the API server's return", rules.LongestAwayBackoff)
		}
	}, newRunner())
}

func TestRefusedSecrets(t *testing.T) {
	for title, test := range map[string]struct {
		refusal error
		phase   v1alpha1.EphemeralRunnerPhase
	}{
		"invalid":     {apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, name, nil), v1alpha1.EphemeralRunnerPhaseFailed},
		"server":      {apierrors.NewInternalError(errors.New("etcd")), v1alpha1.EphemeralRunnerPhasePending},
		"terminating": {terminating(), ""},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.api.refuse = map[string]error{"create Secret": test.refusal}
				f.settle()
				if got := f.runner().Status.Phase; got != test.phase {
					t.Errorf("phase %q, want %q", got, test.phase)
				}
				if f.pod() != nil {
					t.Error("a pod without its Secret")
				}
			}, newRunner())
		})
	}
}
