package ephemeralrunner

import (
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
	// maxStatusDelay is how long after the start of a runner container the reports that it runs, and which job, may be
	// deferred. statusRecheckPeriod is how often a deferred report is reconsidered.
	maxStatusDelay      = 10 * time.Second
	statusRecheckPeriod = 500 * time.Millisecond
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

// deferStatus reports whether writes that only report something about the runner must wait: calls to register and create
// runners are waiting in the pool, or the gate is closed. All of them compete for the API server.
func (c *Controller) deferStatus(runner *v1alpha1.EphemeralRunner) bool {
	return c.options.Pool.Waiting(groupOf(runner)) || c.statusGate.closed()
}
