// Package removals remembers which registrations GitHub has removed. The EphemeralRunnerSet's controller asks GitHub to remove
// surplus runners, and the EphemeralRunner's controller finalizes them: what one has learned, the other needn't ask again.
package removals

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// rememberedFor is how long a removal is remembered. The runner's object is deleted within a second after it.
const rememberedFor = 5 * time.Minute

// Memory remembers which registrations GitHub has removed. It is lost in a restart: then GitHub is asked once more. A nil Memory
// remembers nothing.
type Memory struct {
	removed *cache.Expiring
}

// removal identifies a registration by its id on GitHub and the runner that had it, because two servers may use the same id.
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

// Has reports whether GitHub is known to have removed the registration of a runner object.
func (m *Memory) Has(runner types.UID, id int) bool {
	if m == nil {
		return false
	}
	_, remembered := m.removed.Get(removal{runner, id})
	return remembered
}
