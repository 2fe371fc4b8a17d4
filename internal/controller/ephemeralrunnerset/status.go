package ephemeralrunnerset

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// reportPeriod is the shortest time between two writes of a set's status: a burst changes the counts a thousand times.
const reportPeriod = time.Second

// reasonRunnersScale is the reason of Ready while nothing is wrong.
const reasonRunnersScale = "RunnersScale"

// report writes the status if it has changed, at most once a second, and then records the Events that go with it.
func (c *Controller) report(ctx context.Context, p *pass) error {
	set, s := p.set, p.state
	before := set.DeepCopy()
	s.describe(&set.Status, set, p.views, p.plan)
	kept, lookAt := c.tellKept(ctx, p, s.now)
	report.SetConditions(&set.Status.Conditions, set.Generation, s.now, kept...)
	p.requeueBy(lookAt)
	if c.options.PublishMetrics {
		s.publishCounts(set)
		s.publishStates(set, p.views)
	}
	if equality.Semantic.DeepEqual(before.Status, set.Status) {
		return nil
	}
	if due := s.reportedAt.Add(reportPeriod); s.now.Before(due) {
		p.requeueBy(due)
		return nil
	}
	if _, err := kube.PatchStatus(ctx, c.options.Client, set, before); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.reportedAt = s.now
	c.recordEvents(ctx, before, set)
	return nil
}

// describe fills the status with what was seen.
func (h *history) describe(
	status *v1alpha1.EphemeralRunnerSetStatus, set *v1alpha1.EphemeralRunnerSet, runners []*runnerView, p *plan,
) {
	countLive(status, runners)
	status.ObservedGeneration = set.Generation
	status.Phase = v1alpha1.EphemeralRunnerSetPhaseRunning
	if h.failures.isOutdated() {
		status.Phase = v1alpha1.EphemeralRunnerSetPhaseOutdated
	}
	status.Capacity = h.capacity(p)
	status.DoubtedJobs = h.doubt.jobs
	report.SetConditions(&status.Conditions, set.Generation, h.now, h.conditions(set, p)...)
	informational := append(waitConditions(status.Conditions, runners, h.givenUp(p), h.jobWaits...), h.doubtful(status.Conditions, set)...)
	report.SetConditions(&status.Conditions, set.Generation, h.now, informational...)
}

// givenUp returns the runners that failed by no fault of the template since the last one that worked, none once another one is up, or while
// none is wanted.
func (h *history) givenUp(p *plan) wait {
	if p.wanted == 0 || p.tally.waiting > p.tally.starting {
		return wait{}
	}
	return h.failures.givenUp
}

// countLive sets the status's runner counts, without the runners that are being deleted.
func countLive(status *v1alpha1.EphemeralRunnerSetStatus, runners []*runnerView) {
	countUnless(status, runners, func(r *runnerView) bool { return r.deleting })
}

// countWithDeleting sets the runner counts including the runners that are being deleted and have not ended. Once such a
// runner has ended, another set may have one in its place, even while somebody keeps it or its pod.
func countWithDeleting(status *v1alpha1.EphemeralRunnerSetStatus, runners []*runnerView) {
	countUnless(status, runners, func(r *runnerView) bool { return r.deleting && !r.alive() })
}

func countUnless(status *v1alpha1.EphemeralRunnerSetStatus, runners []*runnerView, leftOut func(*runnerView) bool) {
	status.PendingEphemeralRunners, status.RunningEphemeralRunners, status.FailedEphemeralRunners, status.BusyRunners = 0, 0, 0, 0
	for _, r := range runners {
		switch {
		case leftOut(r):
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

// capacity returns how many jobs GitHub may assign to the set, nil if the set sets no limit. While its runners fail or are outdated,
// that is one more than there are working runners: without a job there is no demand to try a runner for, and GitHub was seen never to
// offer again what was queued while a set announced 0. While the API server rejects runners, the waiting ones count, too. GitHub gives
// the other jobs to sets that can run them.
func (h *history) capacity(p *plan) *int {
	t := &p.tally
	switch f := &h.failures; {
	case f.isOutdated(), f.isDegraded():
		return new(t.working + 1)
	case h.cannotCreate(p):
		return new(t.working + t.waiting + 1)
	default:
		return nil
	}
}

func (h *history) conditions(set *v1alpha1.EphemeralRunnerSet, p *plan) []metav1.Condition {
	degraded, outdated := h.degraded(set, p), h.outdated(set)
	summary := report.Ready(reasonRunnersScale, "runners follow the jobs that GitHub assigns")
	switch {
	case outdated.Status == metav1.ConditionTrue:
		summary = report.Unready(outdated.Reason, outdated.Message, true)
	case degraded.Status == metav1.ConditionTrue:
		summary = report.Unready(degraded.Reason, degraded.Message, false)
	}
	return append(summary, degraded, outdated)
}

// cannotCreate reports whether runners are wanted and their creation has failed too often in a row.
func (h *history) cannotCreate(p *plan) bool { return p.wantsRunners() && h.creations.failing() }

func (h *history) degraded(set *v1alpha1.EphemeralRunnerSet, p *plan) metav1.Condition {
	f := &h.failures
	switch {
	case !f.isDegraded() && h.cannotCreate(p):
		return report.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersNotCreated, fmt.Sprintf(
			"the API server rejects this set's runners; creation is retried. It says: %s. Correct what it names in the AutoscalingRunnerSet, or what rejects it in namespace %s",
			strings.ReplaceAll(h.creations.err.Error(), "\n", "; "), set.Namespace))
	case !f.isDegraded() && h.creations.hasUnseen():
		return h.creations.unseenCondition(set.Namespace)
	case !f.isDegraded():
		return report.False(v1alpha1.ConditionDegraded, "RunnersWork", "no runner has failed without a job since the last one that worked")
	}
	return report.True(v1alpha1.ConditionDegraded, cmp.Or(f.reason, "RunnersFail"), fmt.Sprintf(
		"%d runners in a row failed before they got a job, most recently because: %s; runners are tried one at a time until one works or the template changes; kubectl get ephemeralrunners -n %s shows the latest",
		f.count, cmp.Or(f.message, f.reason), set.Namespace))
}

func (h *history) outdated(set *v1alpha1.EphemeralRunnerSet) metav1.Condition {
	if !h.failures.isOutdated() {
		return report.False(v1alpha1.ConditionRunnerOutdated, "VersionAccepted", "GitHub has not refused any runner of this template")
	}
	return report.True(v1alpha1.ConditionRunnerOutdated, "RunnerVersionRefused", fmt.Sprintf(
		"GitHub refuses the runner version in image %s: use a newer image in the template; until then one runner is tried now and then, in case the image behind the tag has been updated",
		kube.Image(&set.Spec.EphemeralRunnerSpec.PodSpec, v1alpha1.RunnerContainerName)))
}
