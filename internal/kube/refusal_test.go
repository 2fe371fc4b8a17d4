package kube

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestRefusal(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("no"))
	terminating := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	before := &metav1.Condition{Reason: v1alpha1.ReasonReconcileFailed, Message: "before"}
	for name, test := range map[string]struct {
		failure  error
		cutShort bool
		previous *metav1.Condition
		want     string
	}{
		"no failure":                      {},
		"no failure any more":             {previous: before},
		"refused":                         {failure: forbidden, cutShort: true, want: WithAdvice(forbidden)},
		"refused for another reason":      {failure: forbidden, cutShort: true, previous: before, want: WithAdvice(forbidden)},
		"namespace terminating":           {failure: terminating, cutShort: true, previous: before},
		"failure that passes":             {failure: errors.New("timeout"), cutShort: true},
		"cut short before the refused":    {failure: errors.New("timeout"), cutShort: true, previous: before, want: "before"},
		"cut short by a cache":            {cutShort: true, previous: before, want: "before"},
		"cut short after another problem": {cutShort: true, previous: &metav1.Condition{Reason: "Other", Message: "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Refusal(test.failure, test.cutShort, test.previous); got != test.want {
				t.Errorf("Refusal() = %q, want %q", got, test.want)
			}
		})
	}
}
