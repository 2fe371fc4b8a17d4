package scaling

import (
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
)

// StraysGrace passes before the manager is told of stray registrations that GitHub's figures show. A runner that has
// just had its job is registered for tens of seconds longer than the cluster knows it.
const StraysGrace = 3 * time.Minute

// Strays remembers the time for which GitHub's figures have counted more registrations than there are runners. A
// restore of the cluster from a backup leaves such registrations: their runners were created after the backup, so that
// nobody knows them any more.
type Strays struct {
	// The figures show some since then, zero if the last ones showed none; least is the smallest number in that time.
	since time.Time
	least int
	// Shown is the number to tell the manager.
	Shown int
}

// Observe compares the newest figures with the runners that the set had at that time.
func (s *Strays) Observe(statistics *actions.Statistics, known cluster.RunnerCounts, now time.Time) {
	found := strayRegistrations(statistics, known)
	switch {
	case found == 0:
		*s = Strays{}
		return
	case s.since.IsZero():
		s.since, s.least = now, found
	}
	s.least = min(s.least, found)
	if now.Sub(s.since) >= StraysGrace {
		s.Shown = s.least
	}
}

// strayRegistrations returns the number of registrations that must be strays: they are more than the set's runners, and
// more are offline than runners that have yet to come up. GitHub may still count runners that had a job, but hardly as
// offline.
func strayRegistrations(statistics *actions.Statistics, known cluster.RunnerCounts) int {
	registered := statistics.TotalRegisteredRunners
	offline := registered - statistics.TotalBusyRunners - statistics.TotalIdleRunners
	return max(0, min(registered-known.Pending-known.Running, offline-known.Pending))
}
