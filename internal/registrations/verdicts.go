package registrations

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// A verdict is forgotten after verdictTimeout: the runner's object is deleted, its pod marked as busy, or its status
// written within a second after it.
const verdictTimeout = 5 * time.Minute

// Verdicts remembers what a set has found out about its runners for their own controller, which finalizes them,
// protects their jobs and writes their statuses, and so needn't ask GitHub again. It is lost in a restart: then GitHub
// is asked again.
type Verdicts struct {
	given *cache.Expiring

	mu   sync.Mutex
	wake func(runner types.NamespacedName)
}

// NewVerdicts returns an empty memory.
func NewVerdicts(clk clock.Clock) *Verdicts {
	return &Verdicts{given: cache.NewExpiringWithClock(clk), wake: func(types.NamespacedName) {}}
}

// WhenGiven has a function called, which must not block, with each runner about which there is news from now on. That
// it is removed is none, because its set deletes it next.
func (v *Verdicts) WhenGiven(wake func(runner types.NamespacedName)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wake = wake
}

// Give remembers a verdict about a registration of the runner with that name. One about the runner itself is about the
// registration 0.
func (v *Verdicts) Give(name types.NamespacedName, about Registration, verdict Answer) {
	news := v.Of(about) != verdict
	v.given.Set(about, verdict, verdictTimeout)
	if !news || verdict == Removed {
		return
	}
	v.mu.Lock()
	wake := v.wake
	v.mu.Unlock()
	wake(name)
}

// recorded is the key of the version in GitHub's record of a registration.
type recorded Registration

// SeeVersion remembers the version that GitHub's record of a registration has.
func (v *Verdicts) SeeVersion(about Registration, version string) {
	v.given.Set(recorded(about), version, verdictTimeout)
}

// VersionOf returns that version, empty if it was not seen within the last minutes.
func (v *Verdicts) VersionOf(about Registration) string {
	seen, _ := v.given.Get(recorded(about))
	version, _ := seen.(string)
	return version
}

// Of returns the last verdict about a registration, None if there is none.
func (v *Verdicts) Of(about Registration) Answer {
	verdict, _ := v.given.Get(about)
	answer, _ := verdict.(Answer)
	return answer
}
