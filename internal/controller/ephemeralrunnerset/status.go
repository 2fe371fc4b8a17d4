package ephemeralrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// reportEvery is the shortest time between two writes of a set's status: a burst changes the counts a thousand times.
const reportEvery = time.Second

// reasonRunnersScale is the reason of Ready while nothing is wrong.
const reasonRunnersScale = "RunnersScale"

// report writes the status if it changed, at most once a second, then the Events that go with it.
func (c *Controller) report(ctx context.Context, p *pass) error {
	set, m := p.set, p.memory
	before := set.DeepCopy()
	m.describe(&set.Status, set, p.views, p.plan)
	if c.options.PublishMetrics {
		m.publishCounts(set)
		m.publishStates(set, p.views)
	}
	if equality.Semantic.DeepEqual(before.Status, set.Status) {
		return nil
	}
	if due := m.reported.Add(reportEvery); m.now.Before(due) {
		p.plan.wake(due)
		return nil
	}
	if _, err := kube.PatchStatus(ctx, c.options.Client, set, before); err != nil {
		return client.IgnoreNotFound(err)
	}
	m.reported = m.now
	c.announce(ctx, before, set)
	return nil
}

// describe fills the status with what was seen.
func (m *memory) describe(status *v1alpha1.EphemeralRunnerSetStatus, set *v1alpha1.EphemeralRunnerSet, runners []*runner, p *plan) {
	count(status, runners, false)
	status.ObservedGeneration = set.Generation
	status.Phase = v1alpha1.EphemeralRunnerSetPhaseRunning
	if m.trouble.isOutdated() {
		status.Phase = v1alpha1.EphemeralRunnerSetPhaseOutdated
	}
	status.Capacity = m.capacity(p)
	kube.SetConditions(&status.Conditions, set.Generation, m.now, m.conditions(set)...)
	kube.SetConditions(&status.Conditions, set.Generation, m.now, waitConditions(status.Conditions, runners)...)
}

// count sorts runners into the status's numbers: those that are being deleted too, or without them.
func count(status *v1alpha1.EphemeralRunnerSetStatus, runners []*runner, deleting bool) {
	status.PendingEphemeralRunners, status.RunningEphemeralRunners, status.FailedEphemeralRunners, status.BusyRunners = 0, 0, 0, 0
	for _, r := range runners {
		switch {
		case r.deleting && !deleting:
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

// capacity is how many jobs the set may be given: while its runners cannot work, those that run and one for a try that is
// under way or due, for without a job there would be no demand to try for; while none can be made, those there are, for the next try has its job already. GitHub gives the others to sets that
// can. Otherwise the set has no limit of its own.
func (m *memory) capacity(p *plan) *int {
	t := &p.tally
	switch trouble := &m.trouble; {
	case trouble.isOutdated(), trouble.isDegraded():
		trying, due := 0, trouble.due()
		if t.waiting > 0 || p.create > 0 || !m.now.Before(due) {
			trying = 1
		} else {
			p.wake(due)
		}
		return ptr.To(t.working + trying)
	case m.notMade():
		return ptr.To(t.working + t.waiting)
	default:
		return nil
	}
}

func (m *memory) conditions(set *v1alpha1.EphemeralRunnerSet) []kube.Condition {
	degraded, outdated := m.degraded(set), m.outdated(set)
	summary := kube.ReadyStates(reasonRunnersScale, "runners follow the jobs that GitHub assigns")
	switch {
	case outdated.Status == metav1.ConditionTrue:
		summary = kube.UnreadyStates(outdated.Reason, outdated.Message, true)
	case degraded.Status == metav1.ConditionTrue:
		summary = kube.UnreadyStates(degraded.Reason, degraded.Message, false)
	}
	return append(summary, degraded, outdated)
}

// notMade says that runners are wanted and the API server has refused them, or not answered, too often.
func (m *memory) notMade() bool { return m.lacking && m.refusals >= troubleLimit }

func (m *memory) degraded(set *v1alpha1.EphemeralRunnerSet) kube.Condition {
	t := &m.trouble
	switch {
	case !t.isDegraded() && m.notMade():
		return kube.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersNotCreated, fmt.Sprintf(
			"the API server does not take the set's runners, which is tried again: %s: correct what it names in the AutoscalingRunnerSet, or what refuses it in namespace %s",
			strings.ReplaceAll(m.refusal.Error(), "\n", "; "), set.Namespace))
	case !t.isDegraded():
		return kube.False(v1alpha1.ConditionDegraded, "RunnersWork", "no runner failed before it got a job since the last that worked")
	}
	return kube.True(v1alpha1.ConditionDegraded, cmp.Or(t.reason, "RunnersFail"), fmt.Sprintf(
		"%d runners in a row failed before they got a job, the last because: %s; one at a time is tried until one works or the template changes; kubectl get ephemeralrunners -n %s has the latest",
		t.failures, cmp.Or(t.message, t.reason), set.Namespace))
}

func (m *memory) outdated(set *v1alpha1.EphemeralRunnerSet) kube.Condition {
	if !m.trouble.isOutdated() {
		return kube.False(v1alpha1.ConditionRunnerOutdated, "VersionAccepted", "GitHub has refused no runner of this template")
	}
	return kube.True(v1alpha1.ConditionRunnerOutdated, "RunnerVersionRefused", fmt.Sprintf(
		"GitHub refuses the runner version in image %s: use a newer image in the template; until then one runner is tried now and then, for the case that the image behind the tag was renewed",
		kube.Image(&set.Spec.EphemeralRunnerSpec.PodSpec, v1alpha1.RunnerContainerName)))
}
