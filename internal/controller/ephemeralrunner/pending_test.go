package ephemeralrunner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// What is reported and done about a pod that takes long to start.

// On its node a pod has its time; then another one has a better chance, with GitHub's consent.
func TestPodThatDoesNotStartOnItsNodeIsReplaced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bind()
		f.setPod(pulls)
		f.settle()
		f.elapse(rules.DefaultPendingTimeout)
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

// Docker is an init container that starts before the runner: a fault of it is found as fast as one of the runner's own
// container.
func TestPodWhoseSidecarCanNotBePulledIsReplaced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bind()
		f.setPod(func(p *corev1.Pod) {
			pulls(p)
			initWaits("ImagePullBackOff")(p)
		})
		f.settle()
		f.wantCalls("jit", "remove 101")
		status := f.runner().Status
		if status.Reason != "ImagePullBackOff" || status.Message != "init container dind: why" {
			t.Errorf("status %+v, want the kubelet's reason and the container's name", status)
		}
		f.wantEvent("ImagePullBackOff")
		f.wantNewRegistration()
	}, newRunner())
}

// A sidecar that crashes before its startup probe succeeds keeps the runner waiting: that is reported after half a
// minute.
func TestWhatKeepsAPodOnItsNodeFromStartingIsReportedEarly(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bind()
		f.setPod(func(p *corev1.Pod) {
			pulls(p)
			initWaits("CrashLoopBackOff")(p)
		})
		if after := f.reconcile().RequeueAfter; after <= 0 || after > rules.ExplainGrace {
			t.Fatalf("reconciled again after %s, want %s at most", after, rules.ExplainGrace)
		}
		f.elapse(rules.ExplainGrace)
		f.settle()
		if status := f.runner().Status; status.Reason != "CrashLoopBackOff" ||
			status.Message != "init container dind: why" {
			t.Errorf("status %+v, want the kubelet's reason and the container's name", status)
		}
		f.wantEvent("CrashLoopBackOff")
		f.wantCalls("jit")
	}, newRunner())
}

// A runner that runs no longer reports a failure: its conditions say that it is over.
func TestConditionsAreResolvedWhenTheRunnerRuns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"create Pod": apierrors.NewForbidden(pods, name,
			errors.New("exceeded quota: q"))}
		f.settle()
		if recorded := controllertest.CountEvents(f.recorder, v1alpha1.ConditionQuotaExceeded); recorded != 1 {
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
