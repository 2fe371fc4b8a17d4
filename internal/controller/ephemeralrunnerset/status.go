package ephemeralrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// reportEvery is the shortest time between two writes of a set's status: a burst changes the counts a thousand times.
const reportEvery = time.Second

// report writes the status if it changed, at most once a second, then the Events that go with it.
func (c *Controller) report(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, m *setMemory, runners []*runner, p *plan) error {
	before := set.DeepCopy()
	m.describe(&set.Status, set, runners, p)
	if c.PublishMetrics {
		publishMetrics(set)
		m.publishStates(set, runners)
	}
	if due := m.reported.Add(reportEvery); m.now.Before(due) {
		p.wake(due)
		return nil
	}
	wrote, err := kube.PatchStatus(ctx, c.Client, set, before)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if wrote {
		m.reported = m.now
		c.announce(ctx, before, set)
	}
	return nil
}

// describe fills the status with what was seen.
func (m *memory) describe(status *v1alpha1.EphemeralRunnerSetStatus, set *v1alpha1.EphemeralRunnerSet, runners []*runner, p *plan) {
	count(status, slices.DeleteFunc(slices.Clone(runners), func(r *runner) bool { return r.deleting }))
	status.ObservedGeneration = set.Generation
	status.Phase = v1alpha1.EphemeralRunnerSetPhaseRunning
	if m.trouble.isOutdated() {
		status.Phase = v1alpha1.EphemeralRunnerSetPhaseOutdated
	}
	status.Capacity = m.capacity(runners, p)
	kube.SetConditions(&status.Conditions, set.Generation, m.now, m.conditions(set)...)
	if quota := quotaCondition(status, runners); quota != nil {
		kube.SetConditions(&status.Conditions, set.Generation, m.now, *quota)
	}
}

// count sorts runners into the status's numbers.
func count(status *v1alpha1.EphemeralRunnerSetStatus, runners []*runner) {
	status.PendingEphemeralRunners, status.RunningEphemeralRunners, status.FailedEphemeralRunners, status.BusyRunners = 0, 0, 0, 0
	for _, r := range runners {
		switch {
		case r.phase == v1alpha1.EphemeralRunnerPhaseSucceeded || r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		case r.phase == v1alpha1.EphemeralRunnerPhaseFailed:
			status.FailedEphemeralRunners++
		case r.up():
			status.RunningEphemeralRunners++
			if stateOf(r).state == stateBusy {
				status.BusyRunners++
			}
		default:
			status.PendingEphemeralRunners++
		}
	}
	status.CurrentReplicas = status.PendingEphemeralRunners + status.RunningEphemeralRunners + status.FailedEphemeralRunners
}

// capacity is how many jobs the set may be given: while its runners cannot work, those that run and one for the next
// try, so that GitHub gives the others to sets that can; no limit of its own otherwise.
func (m *memory) capacity(runners []*runner, p *plan) *int {
	if !m.trouble.isOutdated() && !m.trouble.isDegraded() {
		return nil
	}
	t := m.tally(runners)
	trying := 0
	if t.waiting > 0 || p.create > 0 {
		trying = 1
	}
	return ptr.To(t.working + trying)
}

func (m *memory) conditions(set *v1alpha1.EphemeralRunnerSet) []kube.Condition {
	degraded, outdated := m.degraded(), m.outdated(set)
	ready := kube.True(v1alpha1.ConditionReady, "RunnersScale", "runners follow the jobs that GitHub assigns")
	switch {
	case outdated.Status == metav1.ConditionTrue:
		ready = kube.False(v1alpha1.ConditionReady, outdated.Reason, outdated.Message)
	case degraded.Status == metav1.ConditionTrue:
		ready = kube.False(v1alpha1.ConditionReady, degraded.Reason, degraded.Message)
	}
	return []kube.Condition{ready, degraded, outdated}
}

// quotaCondition says that a ResourceQuota refuses pods, for as long as one runner waits for it; nil where none ever did.
func quotaCondition(status *v1alpha1.EphemeralRunnerSetStatus, runners []*runner) *kube.Condition {
	waiting, message := 0, ""
	for _, r := range runners {
		if !r.ended() && !r.up() && r.reason == v1alpha1.ConditionQuotaExceeded {
			waiting, message = waiting+1, r.message
		}
	}
	var condition kube.Condition
	switch {
	case waiting > 0:
		condition = kube.True(v1alpha1.ConditionQuotaExceeded, "PodsForbidden", fmt.Sprintf(
			"%d runners wait because a ResourceQuota refuses their pods; raise the quota or lower maxRunners; the last refusal: %s", waiting, message))
	case meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionQuotaExceeded) == nil:
		return nil
	default:
		condition = kube.False(v1alpha1.ConditionQuotaExceeded, "PodsAdmitted", "no runner waits for a ResourceQuota")
	}
	return &condition
}

func (m *memory) degraded() kube.Condition {
	t := &m.trouble
	if !t.isDegraded() {
		return kube.False(v1alpha1.ConditionDegraded, "RunnersWork", "no runner failed before it got a job since the last that worked")
	}
	return kube.True(v1alpha1.ConditionDegraded, cmp.Or(t.reason, "RunnersFail"), fmt.Sprintf(
		"%d runners in a row failed before they got a job, the last because: %s; one at a time is tried until one works or the template changes",
		t.failures, cmp.Or(t.message, t.reason)))
}

func (m *memory) outdated(set *v1alpha1.EphemeralRunnerSet) kube.Condition {
	if !m.trouble.isOutdated() {
		return kube.False(v1alpha1.ConditionOutdated, "VersionAccepted", "GitHub has refused no runner of this template")
	}
	return kube.True(v1alpha1.ConditionOutdated, "RunnerVersionRefused", fmt.Sprintf(
		"GitHub refuses the runner version in image %s: use a newer image in the template; until then one runner is tried now and then, for the case that the image behind the tag was renewed",
		kube.Image(&set.Spec.EphemeralRunnerSpec.PodSpec, v1alpha1.RunnerContainerName)))
}
