package volumeclaims

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// The report about a job may come until reportGrace after its runner's end, or after its listener has come back.
	// Usually it comes within a second; a listener that has just come back has a queue to read.
	reportGrace = time.Minute
	// longestReportGrace is the same while the listener does not listen: longer than its restart on another node
	// takes.
	longestReportGrace = 5 * time.Minute
)

// Verdict decides what becomes of the claims of a runner that has ended.
type Verdict string

// Verdicts about claims.
const (
	// Kept: the next runner may have them.
	Kept Verdict = "Kept"
	// Spoiled: nobody may. They are deleted before their runner goes; until its pod is gone, Kubernetes keeps them from
	// use by others.
	Spoiled Verdict = "Spoiled"
	// Awaited: a report that decides may still come. Until then the runner has them.
	Awaited Verdict = "Awaited"
)

// returning are the rules by which a runner's claims are passed on, or not. The first that applies decides. unknown
// reports whether a report could tell otherwise; why follows on "the claim is not kept: ".
var returning = []struct {
	name    string
	applies func(*v1alpha1.KeepClaimsAfter, *Runner) bool
	verdict Verdict
	unknown func(*Runner) bool
	why     func(*Runner) string
}{
	{"nothing has run", func(_ *v1alpha1.KeepClaimsAfter, r *Runner) bool { return !r.Started }, Kept, nil, nil},
	{"the event is not among those named", func(keep *v1alpha1.KeepClaimsAfter, r *Runner) bool {
		return len(keep.Events) > 0 && !slices.Contains(keep.Events, r.Job.Event)
	}, Spoiled, func(r *Runner) bool { return r.Job.Event == "" },
		func(r *Runner) string { return fmt.Sprintf("the job's event is %s", cmp.Or(r.Job.Event, "unknown")) }},
	{"the result is not among those named", func(keep *v1alpha1.KeepClaimsAfter, r *Runner) bool {
		return len(keep.Results) > 0 && !slices.Contains(keep.Results, r.Job.Result)
	}, Spoiled, func(r *Runner) bool { return r.Job.Result == "" },
		func(r *Runner) string { return fmt.Sprintf("the job's result is %s", cmp.Or(r.Job.Result, "unknown")) }},
}

// Returns reports what becomes of the claims of a runner that has ended and, if they are not passed on, why. Awaited
// ends at due.
func Returns(
	set *v1alpha1.AutoscalingRunnerSet, runner *Runner, now time.Time,
) (verdict Verdict, why string, due time.Time) {
	pool := set.Spec.EffectiveVolumeClaimPool()
	for _, rule := range returning {
		switch {
		case !rule.applies(pool.KeepAfter, runner):
			continue
		case rule.verdict == Kept:
			return Kept, "", time.Time{}
		case rule.unknown(runner):
			if due = reportDue(set, runner.EndedAt, now); now.Before(due) {
				return Awaited, "", due
			}
		}
		return rule.verdict, rule.why(runner), time.Time{}
	}
	return Kept, "", time.Time{}
}

// reportDue returns the time until which the report about a runner's job may come if the runner ended at a time, zero
// if it was not seen to end. The listener of a set that is being deleted goes first. If the listener is said to have
// come back after now, a clock ahead of ours wrote that, and it does not count.
func reportDue(set *v1alpha1.AutoscalingRunnerSet, endedAt, now time.Time) time.Time {
	listens := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionListenerReady)
	switch latest := endedAt.Add(longestReportGrace); {
	case endedAt.IsZero() || set.DeletionTimestamp != nil:
		return time.Time{}
	case listens == nil || (listens.Status == metav1.ConditionTrue && listens.LastTransitionTime.After(now)):
		return endedAt.Add(reportGrace)
	case listens.Status != metav1.ConditionTrue:
		return latest
	default:
		return kube.EarlierOf(latest, kube.LaterOf(endedAt, listens.LastTransitionTime.Time).Add(reportGrace))
	}
}

// Asks reports whether a set passes claims on only after some jobs: whoever may have had a job spends its claims until
// that job is known.
func Asks(set *v1alpha1.AutoscalingRunnerSet) bool {
	keep := set.Spec.EffectiveVolumeClaimPool().KeepAfter
	return len(keep.Events)+len(keep.Results) > 0
}

// NeverStarted reports whether a runner's status proves that it failed before any of its containers had started. That a
// runner has failed, and that no job was reported, proves nothing: the report may be late. Nor does the status of one
// that was deleted, or whose pod others keep.
func NeverStarted(status *v1alpha1.EphemeralRunnerStatus) bool {
	silent := []string{v1alpha1.ReasonRunnerExitedWithoutJob, v1alpha1.ReasonPodTerminating,
		v1alpha1.ReasonVolumeClaimAwaited, v1alpha1.ReasonVolumeClaimNotDeleted}
	return status.Phase == v1alpha1.EphemeralRunnerPhaseFailed && !status.HadJob() && !status.JobCompleted() &&
		status.LostCause == "" && !slices.Contains(silent, status.Reason) &&
		meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionPodStarted) &&
		!meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining)
}
