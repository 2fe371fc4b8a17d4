// Package removals remembers which registrations GitHub has removed. The EphemeralRunnerSet's controller asks GitHub to remove
// surplus runners, the EphemeralRunner's controller finishes them: what the one has learned here, the other need not ask again.
package removals

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// rememberedFor is how long it is remembered that a registration was removed. The runner's object is deleted within a second
// of it.
const rememberedFor = 5 * time.Minute

// Memory remembers which registrations GitHub has removed because one controller asked, so that another need not ask
// again. It is memory only: what is forgotten is asked about once more. A nil Memory remembers nothing.
type Memory struct {
	removed *cache.Expiring
}

// removal names a registration by its id on GitHub and the runner that had it, for ids of two servers may be alike.
type removal struct {
	runner types.UID
	id     int
}

// New returns an empty memory.
func New(clk clock.Clock) *Memory { return &Memory{removed: cache.NewExpiringWithClock(clk)} }

// Note remembers that GitHub no longer has the registration of a runner object.
func (m *Memory) Note(runner types.UID, id int) {
	if m != nil {
		m.removed.Set(removal{runner, id}, nil, rememberedFor)
	}
}

// Has reports whether that is remembered.
func (m *Memory) Has(runner types.UID, id int) bool {
	if m == nil {
		return false
	}
	_, remembered := m.removed.Get(removal{runner, id})
	return remembered
}
