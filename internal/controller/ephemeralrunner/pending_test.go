package ephemeralrunner

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// What is reported of, and done about, a pod that takes long to run.

// On its node a pod has its time; then another one is the better try, with GitHub's consent.
func TestPodThatDoesNotStartOnItsNodeIsReplaced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bind()
		f.setPod(pulls)
		f.settle()
		f.elapse(defaultPendingTimeout)
		f.settle()
		f.wantCalls("jit", "remove 101")
		status := f.runner().Status
		if status.Reason != "PendingTimeout" || !strings.Contains(status.Message, reasonPulling) {
			t.Errorf("status %+v, want PendingTimeout with the kubelet's reason", status)
		}
		f.wantEvent("PendingTimeout")
		f.wantNewRegistration()
	}, newRunner())
}

// A runner that runs reports no failure any more: its conditions say that it is over.
func TestConditionsAreResolvedWhenTheRunnerRuns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Pod": apierrors.NewForbidden(pods, name, errors.New("exceeded quota: q"))}
		f.settle()
		if recorded := controllertest.CountTold(f.recorder, v1alpha1.ConditionQuotaExceeded); recorded != 1 {
			t.Errorf("%d Events for the quota, want 1", recorded)
		}
		f.api.refuse = nil
		f.elapse(time.Minute)
		f.settle()
		f.setPod(runs)
		f.settle()
		status := f.runner().Status
		quota := meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionQuotaExceeded)
		started := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionPodStarted)
		if !quota || !started || status.Reason != "" || status.Message != "" {
			t.Errorf("status %+v still reports a failure", status)
		}
	}, newRunner())
}
