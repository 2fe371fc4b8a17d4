package ephemeralrunnerset_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// A pod whose claim has no volume waits for no node: the condition quotes the claim's own Event, and names the limit.
func TestClaimsWithoutVolumesAreQuoted(t *testing.T) {
	const noClass = "no persistent volumes available for this claim and no storage class is set"
	inBubble(t, func(f *fixture) {
		f.reconcile()
		runner := f.runners()[0]
		runner.Status.Phase, runner.Status.Reason = v1alpha1.EphemeralRunnerPhasePending, v1alpha1.ReasonVolumeUnbound
		runner.Status.Message = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
		if err := f.api.Status().Update(t.Context(), &runner); err != nil {
			t.Fatal(err)
		}
		for name, claim := range map[string]string{"ours": runner.Name + "-work", "others": "somebody-elses"} {
			event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: name}, Reason: "FailedBinding",
				Message: noClass + " for " + name, LastTimestamp: metav1.Now(),
				InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: claim}}
			if err := f.api.Create(t.Context(), event); err != nil {
				t.Fatal(err)
			}
		}
		controllertest.Elapse(time.Minute)
		f.reconcile()
		controllertest.Elapse(reportPeriod)
		f.reconcile()
		conditions := f.set().Status.Conditions
		c := meta.FindStatusCondition(conditions, v1alpha1.ConditionRunnersPending)
		if c == nil || c.Reason != v1alpha1.ReasonVolumeUnbound || !strings.Contains(c.Message, noClass+" for ours") ||
			!strings.Contains(c.Message, runner.Name+"-work") {
			t.Fatalf("RunnersPending is %+v", c)
		}
		if limit := limits.Of(limits.Seen{Conditions: conditions}); limit.Kind != limits.Claims || limit.Reason != c.Reason {
			t.Errorf("the limit is %+v", limit)
		}
	}, newSet(1))
}
