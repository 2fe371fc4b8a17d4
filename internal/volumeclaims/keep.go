package volumeclaims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/jobreports"
)

// In mode Snapshot the claims of a set that takes no jobs wait for a report for snapshotReportGrace.
const snapshotReportGrace = 10 * time.Minute

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
	applies func(*v1alpha1.VolumeClaimPool, *Runner) bool
	verdict Verdict
	unknown func(*Runner) bool
	why     func(*Runner) string
}{
	{"nothing has run", func(_ *v1alpha1.VolumeClaimPool, r *Runner) bool { return !r.Started }, Kept, nil, nil},
	{"a volume is full", func(pool *v1alpha1.VolumeClaimPool, r *Runner) bool {
		_, percent := r.fullest()
		return pool.MaxUsedPercent != nil && percent > *pool.MaxUsedPercent
	}, Spoiled, func(*Runner) bool { return false }, func(r *Runner) string {
		volume, percent := r.fullest()
		return fmt.Sprintf("%d %% of volume %s is used, which is more than maxUsedPercent", percent, volume)
	}},
	{"the event is not among those named", func(pool *v1alpha1.VolumeClaimPool, r *Runner) bool {
		keep := pool.KeepAfter
		return len(keep.Events) > 0 && !slices.Contains(keep.Events, r.Job.Event)
	}, Spoiled, func(r *Runner) bool { return r.Job.Event == "" },
		func(r *Runner) string { return fmt.Sprintf("the job's event is %s", cmp.Or(r.Job.Event, "unknown")) }},
	{"the result is not among those named", func(pool *v1alpha1.VolumeClaimPool, r *Runner) bool {
		keep := pool.KeepAfter
		return len(keep.Results) > 0 && !slices.Contains(keep.Results, r.Job.Result)
	}, Spoiled, func(r *Runner) bool { return r.Job.Result == "" },
		func(r *Runner) string { return fmt.Sprintf("the job's result is %s", cmp.Or(r.Job.Result, "unknown")) }},
}

// fullest returns the fullest volume of those of the runner's claims, and how full it was. An empty directory in the place
// of a claim doesn't count.
func (r *Runner) fullest() (volume string, percent int) {
	for _, name := range slices.Sorted(maps.Keys(r.UsedPercent)) {
		if used := r.UsedPercent[name]; r.Claims[name] != "" && used > percent {
			volume, percent = name, used
		}
	}
	return volume, percent
}

// Returns reports what becomes of the claims of a runner that has ended and, if they are not passed on, why. Awaited
// ends at due; zero means that it has no end while the set takes no jobs.
func Returns(
	set *v1alpha1.AutoscalingRunnerSet, runner *Runner, now time.Time,
) (verdict Verdict, why string, due time.Time) {
	pool := set.Spec.EffectiveVolumeClaimPool()
	for _, rule := range returning {
		switch {
		case !rule.applies(&pool, runner):
			continue
		case rule.verdict == Kept:
			return Kept, "", time.Time{}
		case rule.unknown(runner):
			if due, comes := reportDue(set, runner.EndedAt, now); comes {
				return Awaited, "", due
			}
		}
		return rule.verdict, rule.why(runner), time.Time{}
	}
	return Kept, "", time.Time{}
}

// reportDue reports whether the report about the job of a runner that ended at a time may still come, and until when. In
// mode Snapshot nothing is lost but a snapshot, so a set that takes no jobs is not waited for without end.
func reportDue(set *v1alpha1.AutoscalingRunnerSet, endedAt, now time.Time) (due time.Time, comes bool) {
	due, comes = jobreports.Due(set, endedAt, now)
	if comes && due.IsZero() && set.Spec.OfSnapshots() {
		due = endedAt.Add(snapshotReportGrace)
		return due, now.Before(due)
	}
	return due, comes
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
