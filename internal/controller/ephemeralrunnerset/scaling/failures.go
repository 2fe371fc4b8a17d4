package scaling

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

const (
	// After degradedThreshold runners in a row have failed without a job the set is degraded. From then on one runner
	// at a time is tried, so that a wrong image costs one pod at a time and not maxRunners.
	degradedThreshold = 3
	// firstBackoff is the pause after a round of failures. It doubles with every further round, up to longestBackoff. A
	// runner itself tries for up to 155 s (5+10+20+40+80) before it fails, so the first pause can be short.
	firstBackoff   = 5 * time.Second
	longestBackoff = 5 * time.Minute
)

// outdatedBackoffs are the pauses before another runner is tried after GitHub refused one's version: the image may have
// been updated under the same tag. The last pause applies to all further tries.
var outdatedBackoffs = []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}

// runnerFailures records the runners that could not work since the last one that could. It limits the number of new
// runners.
type runnerFailures struct {
	template string // hash of the template that the failed runners were made from

	count         int // runners that failed before they got a job, by a fault of the template
	rounds        int // failures further apart than the pause they caused, whoever's fault they were
	lastFailureAt time.Time
	reason        string
	message       string
	// blameless are the runners that failed by no fault of the template. They cost pauses, and nothing more.
	blameless wait

	refusals      int // tries refused as outdated; runners that were created together are one
	lastRefusalAt time.Time
	refusal       string // what the last of them says
	// untried limits the runners under way that have not shown yet that they can work, 0 if nothing does: see versions.Seen.
	untried int
	// provenAt is the creation time of the newest runner of the template that has had a job, zero if none has.
	provenAt time.Time

	// lastWorkerCreatedAt is the creation time of the newest runner that took a job. Failures of older runners don't
	// count.
	lastWorkerCreatedAt time.Time
}

// failed remembers that the runner failed without a job at the given time, or that GitHub refused its version. That may
// be before the last failure: it takes a minute to know whether an exit with code 0 was a failure.
func (f *runnerFailures) failed(r *roster.Runner, at time.Time) {
	if r.CreatedAt.Before(f.lastWorkerCreatedAt) {
		return
	}
	if r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated {
		if f.refusals == 0 || !at.Before(f.nextTryAt()) { // runners that were created together are one try
			f.refusals++
		}
		f.lastRefusalAt = at
		if f.refusal = r.Message; r.LostJob != nil {
			f.refusal = "" // the message is about the job
		}
		return
	}
	if f.rounds == 0 || !at.Before(f.lastFailureAt.Add(f.pause())) {
		f.rounds++
	}
	f.lastFailureAt = kube.LaterOf(f.lastFailureAt, at)
	if r.Blameless() {
		f.blameless = wait{runners: f.blameless.runners + 1, example: r.Name, reason: r.Reason, message: r.Message}
		return
	}
	f.count++
	f.reason, f.message = r.Reason, r.Message
}

func (f *runnerFailures) isOutdated() bool { return f.refusals > 0 }

func (f *runnerFailures) isDegraded() bool { return f.count >= degradedThreshold }

// pause returns the wait after the last failure.
func (f *runnerFailures) pause() time.Duration {
	return reconcile.Backoff(firstBackoff, longestBackoff, f.rounds)
}

// nextTryAt returns the time at which the next runner may be tried.
func (f *runnerFailures) nextTryAt() time.Time {
	if f.isOutdated() {
		return f.lastRefusalAt.Add(outdatedBackoffs[min(f.refusals, len(outdatedBackoffs))-1])
	}
	return f.lastFailureAt.Add(f.pause())
}

// allows returns the number of wanted runners that may be created now. If that is none because of a back-off, it also
// returns the end of the back-off. unproven counts the set's runners that are under way and have not yet shown that
// they can work.
func (f *runnerFailures) allows(wanted, unproven int, now time.Time) (int, time.Time) {
	if wanted == 0 || (f.rounds == 0 && f.refusals == 0 && f.untried == 0) {
		return wanted, time.Time{}
	}
	due := f.nextTryAt()
	if now.Before(due) {
		return 0, due
	}
	if f.isOutdated() || f.isDegraded() {
		return max(0, min(wanted, 1-unproven)), time.Time{}
	}
	if f.untried > 0 {
		return max(0, min(wanted, f.untried-unproven)), time.Time{}
	}
	return wanted, time.Time{}
}

// wait is a reason why runners don't run yet, and the number of runners that have it.
type wait struct {
	runners int
	// example is the name of the oldest of these runners, message is its report.
	example, reason, message string
}
