package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// A working set with new labels that no object may have keeps working, says what is wrong, and is ready again when the
// labels are corrected.
func TestLabelThatNoObjectMayHaveIsSaid(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{})
	r.WaitDone(r.QueueJobs(1, 0))
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
	bad := &v1alpha1.ResourceMeta{Labels: map[string]string{"team": "bad label!"}} // a key that listeners may have
	for name, give := range map[string]func(*v1alpha1.AutoscalingRunnerSetSpec, *v1alpha1.ResourceMeta){
		"EphemeralRunnerSet": func(s *v1alpha1.AutoscalingRunnerSetSpec, m *v1alpha1.ResourceMeta) { s.EphemeralRunnerSetMetadata = m },
		"AutoscalingListener": func(s *v1alpha1.AutoscalingRunnerSetSpec, m *v1alpha1.ResourceMeta) {
			s.AutoscalingListenerMetadata = m
		},
	} {
		editSet(t, r, func(spec *v1alpha1.AutoscalingRunnerSetSpec) { give(spec, bad) })
		ready := func() metav1.Condition {
			return *meta.FindStatusCondition(readSet(t, r, rig.DefaultSet).Status.Conditions, v1alpha1.ConditionReady)
		}
		g.Eventually(ready, rig.Patience).Should(gomega.And(
			gomega.HaveField("Reason", v1alpha1.ReasonReconcileFailed), gomega.HaveField("Status", metav1.ConditionFalse),
			gomega.HaveField("Message", gomega.And(gomega.ContainSubstring(name), gomega.ContainSubstring("bad label!"),
				gomega.ContainSubstring("; correct "))),
		))
		r.WaitDone(r.QueueJobs(1, 0))
		editSet(t, r, func(spec *v1alpha1.AutoscalingRunnerSetSpec) { give(spec, nil) })
		awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
	}
}

// editSet changes the default set by hand, without the chart.
func editSet(t *testing.T, r *rig.Rig, change func(*v1alpha1.AutoscalingRunnerSetSpec)) {
	t.Helper()
	set := readSet(t, r, rig.DefaultSet)
	before := set.DeepCopy()
	change(&set.Spec)
	if err := r.Cluster.Client().Patch(context.Background(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
