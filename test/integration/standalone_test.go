package integration

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// A program creates a runner beside those of a scale set, which has none: it becomes one of the set's, is kept although
// no job wants it, and takes the next.
func TestRunnerThatAProgramCreates(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{})
	c := r.Cluster.Client()
	var sets v1alpha1.EphemeralRunnerSetList
	g.Eventually(func() (int, error) {
		err := c.List(t.Context(), &sets, client.InNamespace(r.RunnerNamespace))
		return len(sets.Items), err
	}, rig.Patience).Should(gomega.Equal(1))
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.RunnerNamespace, Name: "program",
			Annotations: map[string]string{v1alpha1.AnnotationStandalone: "true"},
			Labels:      map[string]string{v1alpha1.LabelScaleSetName: rig.DefaultSet}},
		Spec: *sets.Items[0].Spec.EphemeralRunnerSpec.DeepCopy(),
	}
	if err := c.Create(t.Context(), runner); err != nil {
		t.Fatal(err)
	}
	awaitIdle(t, r, 1)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(runner), runner); err != nil ||
		!metav1.IsControlledBy(runner, &sets.Items[0]) {
		t.Errorf("%v: the runner belongs to %v", err, runner.OwnerReferences)
	}
	jobs := r.QueueJobs(1, rig.Held)
	g.Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(1))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(runner), runner); err != nil {
		t.Errorf("another runner has the job: %v", err)
	}
	r.EndJobs(jobs)
	r.AwaitQuiet()
}
