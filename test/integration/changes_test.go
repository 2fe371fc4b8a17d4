package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// A token that replaces a refused one is noticed within takenOverWithin: it is looked for every 15 s, and jobs of a
// second run afterwards. If nobody looked for it, it would go unnoticed for a minute.
const takenOverWithin = 55 * time.Second

// Manager and listener take over a rotated token, also when the old one was revoked before, and neither is restarted.
func TestRotatedToken(t *testing.T) {
	const next = "ghp_theTokenAfterTheRotation0123456789ab"
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t),
		rig.Options{GitHub: fakegithub.Options{PATs: []string{next}, PollLength: 3 * time.Second}})
	r.WaitDone(r.QueueJobs(1, 0))
	r.GitHub.RevokePAT(rig.PAT, true)
	r.GitHub.ExpireAdminTokens()
	r.GitHub.ExpireQueueTokens()
	ids := r.QueueJobs(3, time.Second)
	g.Eventually(func() bool { return strings.Contains(r.ListenerLog(), "401") }, rig.Patience).
		Should(gomega.BeTrue(), "the listener was not refused")
	r.UpgradeSet(rig.DefaultSet, rig.Values{"githubConfigSecret": rig.Values{"github_token": next}})
	rotated := time.Now()
	r.WaitDone(ids)
	if took := time.Since(rotated); took > takenOverWithin {
		t.Errorf("the new token was taken over after %s", took)
	}
	r.AwaitQuiet()
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionCredentialsValid)
	g.Eventually(func() bool { return kube.PodCondition(r.ListenerPod(), corev1.PodReady).Status == corev1.ConditionTrue },
		rig.Patience).
		Should(gomega.BeTrue())
	checkOneListener(t, r)
	for _, pod := range managerPods(r) {
		if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("the manager was restarted %d times", restarts)
		}
	}
}

// maxRunners reaches the running listener. A real kubelet would look at the changed Secret a minute later: the
// annotation shows that the pod is told of it.
func TestMaximumReachesTheListener(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MaxRunners: 1})
	before := r.ListenerPod()
	ids := r.QueueJobs(3, rig.Held)
	gomega.NewWithT(t).Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(1))
	r.UpgradeSet(rig.DefaultSet, rig.Values{"maxRunners": 3})
	gomega.NewWithT(t).Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).
		Should(gomega.BeNumerically(">", 1))
	const told = "actions.github.com/listener-config-hash"
	gomega.NewWithT(t).Eventually(func() bool {
		pod := r.ListenerPod()
		return pod != nil && pod.Annotations[told] != before.Annotations[told]
	}, rig.Patience).Should(gomega.BeTrue(), "the pod was not told of the new configuration")
	r.EndJobs(ids)
	if after := r.ListenerPod(); after == nil || after.UID != before.UID {
		t.Error("the listener was replaced")
	}
}

// GitHub follows changes of group, name, labels and address, with one listener and one session at a time. The chart
// names the object after the scale set, so a name is changed by hand.
func TestRegistrationFollowsTheSpec(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{GitHub: fakegithub.Options{
		Rules: fakegithub.Rules{MultiLabel: true}, RunnerGroups: []string{"large"}, PollLength: 3 * time.Second,
	}})
	edit(t, r, func(spec *v1alpha1.AutoscalingRunnerSetSpec) {
		spec.RunnerGroup, spec.RunnerScaleSetName, spec.RunnerScaleSetLabels = "large", "renamed", []string{"gpu"}
	})
	g.Eventually(func() string { return difference(r, 1, "orgs/org") }, rig.Patience).Should(gomega.BeEmpty())
	r.AwaitListening("renamed")
	r.WaitDone(r.QueueJobsFor("gpu", 2, time.Second))

	edit(t, r, func(spec *v1alpha1.AutoscalingRunnerSetSpec) { spec.GitHubConfigUrl = r.GitHubURL + "/elsewhere" })
	g.Eventually(func() string { return difference(r, 2, "orgs/elsewhere") }, rig.Patience).Should(gomega.BeEmpty())
	r.AwaitListening("renamed")
	r.WaitDone(r.QueueJobsFor("gpu", 2, time.Second))
	r.AwaitQuiet()
	if pods := listenerPods(t, r, rig.DefaultSet); len(pods) != 1 {
		t.Errorf("%d listener pods", len(pods))
	}
}

// A runner version that GitHub refuses ends no scale set: no runners are made, the status names the image, nothing is
// deleted, and a template with another image resumes the work that waits.
func TestOutdatedImage(t *testing.T) {
	g := gomega.NewWithT(t)
	r := rig.Start(t, testkube.Borrow(t), rig.Options{ScaleSetValues: runnerVersion("2.334.0")})
	r.GitHub.DeprecateRunnerVersion("2.334.0", true)
	ids := r.QueueJobs(2, time.Second)
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionRunnerOutdated)
	g.Eventually(func() string { return readyCondition(t, r, rig.DefaultSet).Message }, rig.Patience).
		Should(gomega.ContainSubstring("runner:2.334.0"))
	id := r.GitHub.Snapshot().ScaleSets[0].ID
	r.UpgradeSet(rig.DefaultSet, runnerVersion("2.337.0"))
	r.WaitDone(ids)
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
	if sets := r.GitHub.Snapshot().ScaleSets; len(sets) != 1 || sets[0].ID != id {
		t.Errorf("scale sets on GitHub: %+v", sets)
	}
}

// A runner before 2.333.0 that GitHub refuses exits with 0, as one with a wrong command does. The version tells: it is
// said within two minutes, costs no more runners than there were jobs, and is nobody else's fault.
func TestOutdatedImageThatExitsWithZero(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{ScaleSetValues: runnerVersion("2.330.0")})
	r.GitHub.DeprecateRunnerVersion("2.330.0", true)
	ids := r.QueueJobs(4, time.Second)
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionRunnerOutdated)
	set := readSet(t, r, rig.DefaultSet)
	outdated := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionRunnerOutdated)
	if meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionDegraded) ||
		!strings.Contains(outdated.Message, "runner version 2.330.0 in image runner:2.330.0") {
		t.Errorf("conditions %+v", set.Status.Conditions)
	}
	if made := len(r.GitHub.Registrations()); made > 8 {
		t.Errorf("%d runners were tried", made)
	}
	r.UpgradeSet(rig.DefaultSet, runnerVersion("2.337.0"))
	r.WaitDone(ids)
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
}

// runnerVersion are values with an image of that runner version.
func runnerVersion(version string) rig.Values {
	return rig.Values{"template": rig.Values{"spec": rig.Values{"containers": []rig.Values{{
		"name": "runner", "image": "runner:" + version, "command": []string{"/home/runner/run.sh"},
		"env": []rig.Values{{"name": "RUNNER_VERSION", "value": version}},
	}}}}}
}

// edit changes the default set's spec.
func edit(t *testing.T, r *rig.Rig, change func(*v1alpha1.AutoscalingRunnerSetSpec)) {
	t.Helper()
	set := readSet(t, r, rig.DefaultSet)
	before := set.DeepCopy()
	change(&set.Spec)
	if err := r.Cluster.Client().Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// difference returns the difference between the only scale set on GitHub and what it should be.
func difference(r *rig.Rig, id int, scope string) string {
	sets := r.GitHub.Snapshot().ScaleSets
	if len(sets) != 1 {
		return cmp.Diff(1, len(sets))
	}
	type scaleSet struct {
		ID                 int
		Scope, Name, Group string
		Labels             []string
	}
	slices.Sort(sets[0].Labels)
	return cmp.Diff(scaleSet{id, scope, "renamed", "large", []string{"gpu", "renamed"}},
		scaleSet{sets[0].ID, sets[0].Scope, sets[0].Name, sets[0].RunnerGroup, sets[0].Labels})
}

// A scale set that somebody deleted on GitHub is made again, and takes jobs.
func TestScaleSetDeletedBehindOurBack(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{GitHub: fakegithub.Options{PollLength: 3 * time.Second}})
	before := r.GitHub.Snapshot().ScaleSets[0].ID
	if err := r.GitHub.DeleteScaleSet(before); err != nil {
		t.Fatal(err)
	}
	r.AwaitListening(rig.DefaultSet)
	r.WaitDone(r.QueueJobs(2, time.Second))
	r.AwaitQuiet()
	if sets := r.GitHub.Snapshot().ScaleSets; len(sets) != 1 || sets[0].ID == before {
		t.Errorf("scale sets on GitHub: %+v", sets)
	}
	awaitTrue(t, r, rig.DefaultSet, v1alpha1.ConditionReady)
}
