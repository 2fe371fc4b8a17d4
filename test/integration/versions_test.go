package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// unnamed is an image of which nothing names the runner's version.
const unnamed = "registry.example.com/ci/runner:stable"

// withRunner returns the values of a set whose image has a runner of that version.
func withRunner(image, version string) rig.Values {
	return rig.Values{"template": rig.Values{"spec": rig.Values{"containers": []any{rig.Values{
		"name": v1alpha1.RunnerContainerName, "image": image, "command": []string{"/home/runner/run.sh"},
		"env": []rig.Values{{"name": "RUNNER_VERSION", "value": version}},
	}}}}}
}

// proof returns what the runner set of the default set says of its template.
func proof(t *testing.T, r *rig.Rig) *v1alpha1.ProvenTemplate {
	t.Helper()
	var sets v1alpha1.EphemeralRunnerSetList
	if err := r.Cluster.Client().List(context.Background(), &sets, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		if found := sets.Items[i].Status.ProvenTemplate; found != nil {
			return found
		}
	}
	return nil
}

// An image that GitHub refuses, and of which nothing names the version, costs eight runners of a burst of a hundred jobs,
// although its runner exits with 0 as one does whose job is done. It is called outdated within two minutes, with
// version and image, and the jobs run as soon as the template has another one.
func TestRefusedImageCostsEightRunners(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{ScaleSetValues: withRunner(unnamed, "2.330.0")})
	r.GitHub.DeprecateRunnerVersion("2.330.0", true)
	before, began := r.Requests(), time.Now()
	ids := r.QueueJobs(100, time.Second)
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionRunnerOutdated)
	told := time.Since(began)
	created := r.Requests().Minus(before).Created["ephemeralrunners"]
	set := readSet(t, r, rig.DefaultSet)
	said := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionRunnerOutdated).Message
	t.Logf("after %s and %d runners: %s", told, created, said)
	if created > 8 || told > 2*time.Minute {
		t.Errorf("%d runners were created, and %s have passed", created, told)
	}
	for _, word := range []string{unnamed, "2.330.0", "use a newer image"} {
		if !strings.Contains(said, word) {
			t.Errorf("the condition does not name %q: %s", word, said)
		}
	}
	if meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionDegraded) || proof(t, r) != nil {
		t.Errorf("Degraded %+v, proof %+v", meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionDegraded),
			proof(t, r))
	}
	r.UpgradeSet(rig.DefaultSet, withRunner(unnamed, "2.337.0"))
	r.WaitDone(ids)
}

// An image that GitHub takes costs one start more, once: the log has the figures of its first burst and of the next.
func TestUntriedImageCostsOneStart(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{ScaleSetValues: withRunner(unnamed, "2.337.0")})
	for _, burst := range []string{"first", "second"} {
		began := time.Now()
		jobs := r.WaitDone(r.QueueJobs(100, 2*time.Second))
		t.Logf("the %s burst of 100, done after %s: %s", burst, time.Since(began), rig.TimingOf(jobs))
		r.AwaitQuiet()
		gomega.NewWithT(t).Eventually(func() *v1alpha1.ProvenTemplate { return proof(t, r) }, rig.Patience).
			ShouldNot(gomega.BeNil(), "the proof is kept when there are no runners")
	}
}
