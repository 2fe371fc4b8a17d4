package ephemeralrunnerset

import (
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// troubleLimit is how many runners in a row may fail before they get a job until the set is degraded: from then on
	// one runner at a time is tried, so that a wrong image costs one pod at a time and not maxRunners.
	troubleLimit = 3
	// firstPause doubles with every round of failures up to longestPause. A runner tries for up to 155 s by itself
	// (5+10+20+40+80) before it fails, so the first pause can be short.
	firstPause   = 5 * time.Second
	longestPause = 5 * time.Minute
)

// outdatedPauses are the waits before a runner is tried though GitHub refused the last one's version: the fix may be a
// new image under the same tag.
var outdatedPauses = []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute}

// trouble is the set's record of runners that could not work, since the last one that could.
type trouble struct {
	template string

	failures    int // runners
	rounds      int // failures further apart than the pause they caused
	lastFailure time.Time
	reason      string
	message     string

	refusals    int // runners refused as outdated
	lastRefusal time.Time

	// lastWorking is the creation time of the newest runner that took a job: what failed before it is history.
	lastWorking time.Time
}

// forTemplate starts anew when the template has changed: what failed may have been mended.
func (t *trouble) forTemplate(hash string) {
	if t.template != hash {
		*t = trouble{template: hash, lastWorking: t.lastWorking}
	}
}

// tookJob ends the trouble.
func (t *trouble) tookJob(r *runner) {
	newest := t.lastWorking
	if r.created.After(newest) {
		newest = r.created
	}
	*t = trouble{template: t.template, lastWorking: newest}
}

func (t *trouble) failed(r *runner, now time.Time) {
	if r.created.Before(t.lastWorking) {
		return
	}
	if t.failures == 0 || !now.Before(t.lastFailure.Add(t.pause())) {
		t.rounds++
	}
	t.failures++
	t.lastFailure = now
	t.reason, t.message = r.reason, r.message
}

func (t *trouble) outdated(r *runner, now time.Time) {
	if r.created.Before(t.lastWorking) {
		return
	}
	// Runners that were made together are one try.
	if t.refusals == 0 || !now.Before(t.due()) {
		t.refusals++
	}
	t.lastRefusal = now
}

func (t *trouble) isOutdated() bool { return t.refusals > 0 }
func (t *trouble) isDegraded() bool { return t.failures >= troubleLimit }

// pause is how long to wait after the last failure.
func (t *trouble) pause() time.Duration {
	return kube.ExponentialBackoff(firstPause, longestPause, t.rounds)
}

// due is when the next runner may be tried.
func (t *trouble) due() time.Time {
	if t.isOutdated() {
		return t.lastRefusal.Add(outdatedPauses[min(t.refusals, len(outdatedPauses))-1])
	}
	return t.lastFailure.Add(t.pause())
}

// allows returns how many of the wanted runners may be made now, and when to look again if that is fewer. unproven is
// how many runners of the set are under way that have not shown yet whether they can work.
func (t *trouble) allows(wanted, unproven int, now time.Time) (int, time.Time) {
	if wanted == 0 || t.failures == 0 && t.refusals == 0 {
		return wanted, time.Time{}
	}
	due := t.due()
	if now.Before(due) {
		return 0, due
	}
	if t.isOutdated() || t.isDegraded() {
		return max(0, min(wanted, 1-unproven)), time.Time{}
	}
	return wanted, time.Time{}
}
