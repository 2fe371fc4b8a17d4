package autoscalinglistener_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/credentials"
)

var (
	errTimeout  = errors.New("timeout")
	errConflict = apierrors.NewConflict(corev1.Resource("secrets"), "set-listener-config", errors.New("read it again"))
)

// refusals are answers that stay the same until somebody changes something.
var refusals = map[string]error{
	"invalid":     apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "set-listener-config", nil),
	"forbidden":   apierrors.NewForbidden(corev1.Resource("secrets"), "set-listener-config", errors.New("exceeded quota")),
	"bad request": apierrors.NewBadRequest("a webhook denied it"),
}

// A rotated token that can't be written is said while the listener runs on with the old one. A failure that passes by
// itself takes nothing back, and neither does a cache that is behind.
func TestRefusedSecretOfARunningListenerIsSaid(t *testing.T) {
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			f.credentials.resolved = &credentials.Resolved{Credentials: actions.Credentials{Token: "token-2"}}
			for _, step := range []struct {
				answer  error
				stalled metav1.ConditionStatus
				reason  string
			}{
				{errConflict, metav1.ConditionFalse, listenerpod.ReasonReady},
				{errTimeout, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed},
				{refusal, metav1.ConditionTrue, v1alpha1.ReasonReconcileFailed},
				{errTimeout, metav1.ConditionTrue, v1alpha1.ReasonReconcileFailed},
				{errConflict, metav1.ConditionTrue, v1alpha1.ReasonReconcileFailed},
				{nil, metav1.ConditionFalse, listenerpod.ReasonReady},
			} {
				f.applyAnswers("Secret", step.answer)
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
				f.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, step.reason)
				f.wantCondition(v1alpha1.ConditionStalled, step.stalled, step.reason)
				message, stalled := f.message(v1alpha1.ConditionStalled), step.stalled == metav1.ConditionTrue
				if (stalled && !strings.Contains(message, "; ")) || (!stalled && message != "") {
					t.Errorf("after %v Stalled says %q, want the refusal with a next step while it lasts", step.answer,
						message)
				}
			}
		})
	}
}

// A failure that may pass is reported next to Ready, which stays as it is.
func TestFailureBesideARunningListenerIsSaid(t *testing.T) {
	f := started(t)
	f.applyAnswers("Role", errTimeout) // it is as it should be
	f.wantCondition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, listenerpod.ReasonReady)
	role, _ := f.access()
	role.Rules = nil
	if err := f.client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	f.applyAnswers("Role", errTimeout)
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
	if message := f.message(v1alpha1.ConditionProgressing); !strings.Contains(message, "set-listener: timeout") {
		t.Errorf("Progressing says %q", message)
	}
}

// A pod that ended has no successor while its account is refused, and Ready says that.
func TestEndedListenerSaysWhyItHasNoSuccessor(t *testing.T) {
	for name, answer := range map[string]error{"refused": refusals["forbidden"], "failed": errTimeout} {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			f.deleteAccount()
			f.podStatus(func(status *corev1.PodStatus) {
				*status = corev1.PodStatus{Phase: corev1.PodFailed,
					Reason: "Evicted"}
			})
			f.applyAnswers("ServiceAccount", answer)
			f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed)
			if message := f.message(v1alpha1.ConditionReady); !strings.Contains(message, answer.Error()) {
				t.Errorf("Ready says %q", message)
			}
			f.applyAnswers("ServiceAccount", nil)
			f.elapse(successorLongestBackoff)
			f.settle()
			if f.pod().Status.Phase == corev1.PodFailed {
				t.Error("the pod has no successor")
			}
			f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionFalse, listenerpod.ReasonStarting)
		})
	}
}

// A namespace that is being deleted refuses everything, which nobody needs to fix.
func TestDeletedNamespaceIsNoRefusal(t *testing.T) {
	f := started(t)
	f.credentials.resolved = &credentials.Resolved{Credentials: actions.Credentials{Token: "token-2"}}
	ending := apierrors.NewForbidden(corev1.Resource("secrets"), "set-listener-config",
		errors.New("the namespace is being deleted"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	f.applyAnswers("Secret", ending)
	f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonReconcileFailed)
}

// The text of an error can be another one each time, as with the port of a connection that breaks. Its write would
// bring the next pass immediately, and so on.
func TestFailureIsNotRephrasedWithEveryPass(t *testing.T) {
	f := started(t)
	f.credentials.resolved = &credentials.Resolved{Credentials: actions.Credentials{Token: "token-2"}}
	f.applyAnswers("Secret", errors.New("connection 1 was reset"))
	written := f.listener().ResourceVersion
	f.applyAnswers("Secret", errors.New("connection 2 was reset"))
	if f.listener().ResourceVersion != written {
		t.Error("the status is written with every error")
	}
	f.elapse(rephraseInterval)
	f.applyAnswers("Secret", errors.New("connection 3 was reset"))
	if message := f.message(v1alpha1.ConditionProgressing); !strings.Contains(message, "connection 3") {
		t.Errorf("Progressing still says %q", message)
	}
}

// applyAnswers runs passes in which every server-side apply of the kind fails with err, or succeeds for nil.
func (f *fixture) applyAnswers(kind string, err error) {
	f.Helper()
	f.applyFailures = map[string]error{kind: err}
	for range 3 {
		_, _ = f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: key}) // errors are the point of it
	}
}

// message returns the message of a condition of the listener.
func (f *fixture) message(conditionType string) string {
	f.Helper()
	if found := meta.FindStatusCondition(f.listener().Status.Conditions, conditionType); found != nil {
		return found.Message
	}
	return ""
}
