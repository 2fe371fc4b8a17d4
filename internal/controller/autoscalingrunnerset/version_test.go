package autoscalingrunnerset_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// What the user wrote is served whatever chart it is from, whereas ARC deletes a set of another version, or without
// one.
func TestSetOfAForeignVersionIsServed(t *testing.T) {
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	for version, want := range map[string]metav1.Condition{
		"0.9.3": {Status: no, Reason: reasonVersionForeign}, "1.3.0": {Status: no, Reason: reasonVersionForeign},
		"2.0.0": {Status: no, Reason: reasonVersionForeign}, "nightly": {Status: no, Reason: reasonVersionForeign},
		"": {Status: yes, Reason: reasonNoVersion}, // a plain manifest
	} {
		t.Run(version, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Labels[v1alpha1.LabelVersion] = version }))
				f.settle()
				f.listening()
				f.settle()
				f.wantCondition(v1alpha1.ConditionVersionSupported, want.Status, want.Reason)
				f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, reasonReady)
				if f.set().DeletionTimestamp != nil || len(f.runnerSets()) != 1 || len(f.listeners()) != 1 {
					t.Error("it is not served")
				}
			})
		})
	}
}
