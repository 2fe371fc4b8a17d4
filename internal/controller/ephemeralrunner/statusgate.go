package ephemeralrunner

import (
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// maxStatusWrites limits concurrent writes that only report something. The limit is approximate, since check and enter
	// are not atomic. An API server that gets as many of these writes as it can take delivers its watches late: with 32 at
	// once on two cores, the end of a pod was seen 5 s after the fact.
	maxStatusWrites = 4
	// maxStatusDelay is how long after the start of a runner container the reports that it runs, and which job, make way for
	// everything else. After that they only wait for each other, because jobs that began together are overdue together, often
	// when they end; after twice as long for nothing. A deferred report is reconsidered every one to two
	// statusRecheckPeriods: each time costs a pass of 0.1 ms, 70 ms of every second for 1,000 runners.
	maxStatusDelay      = 10 * time.Second
	statusRecheckPeriod = time.Second
)

// statusGate holds back writes that only report something while ended pods wait to be deleted, or while maxStatusWrites
// passes are already writing. Safe for concurrent use.
type statusGate struct {
	mu      sync.Mutex
	ended   sets.Set[types.NamespacedName] // runners whose pods have ended and that have had no pass since
	writing int                            // passes
}

// podEnded notes that the runner's pod has ended and must still be deleted.
func (g *statusGate) podEnded(runner types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.ended = sets.New[types.NamespacedName]()
	}
	g.ended.Insert(runner)
}

// handled notes that a pass of the runner has ended.
func (g *statusGate) handled(runner types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended.Delete(runner)
}

// enter counts a pass that writes, until leave is called. It never waits: see closed.
func (g *statusGate) enter() (leave func()) {
	count := func(change int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.writing += change
	}
	count(1)
	return func() { count(-1) }
}

// closed reports whether a write that only reports something must wait.
func (g *statusGate) closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended.Len() > 0 || g.writing >= maxStatusWrites
}

// full reports whether as many passes are writing as may.
func (g *statusGate) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writing >= maxStatusWrites
}

// statusRecheckAt returns when to reconsider a deferred report of the runner. Runners that were started together come back
// apart, so that some find the gate open at any time.
func statusRecheckAt(runner *v1alpha1.EphemeralRunner, now time.Time) time.Time {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(runner.UID)) // never fails
	spread := time.Duration(hash.Sum32()%1000) * statusRecheckPeriod / 1000
	return now.Add(statusRecheckPeriod + spread)
}

// deferStatus reports whether writes that only report something about a runner must wait, whose container started so long
// ago. Calls that register and create runners, the deletion of ended pods and these writes compete for the API server.
func (c *Controller) deferStatus(runner *v1alpha1.EphemeralRunner, up time.Duration) bool {
	switch {
	case up >= 2*maxStatusDelay:
		return false
	case up >= maxStatusDelay:
		return c.statusGate.full()
	default:
		return c.options.Pool.Waiting(groupOf(runner)) || c.statusGate.closed()
	}
}
