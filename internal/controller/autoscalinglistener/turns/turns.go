// Package turns bounds the number of working listeners that are replaced at a time. An upgrade of the controller
// replaces all of them: together they would all be deaf at the same time, and ask GitHub for more tokens than it gives
// in a minute. A new process begins with all turns free.
package turns

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// most bounds the turns. A new listener needs three calls for its tokens (an installation's, a registration token,
	// and the registration), which GitHub counts as five points each; it allows an App 900 a minute. Five turns of 8 s
	// are 37 listeners a minute, or 560 points. Of 20 sets five are deaf for some seconds, of 200 as many.
	most = 5
	// turnTimeout ends the turn of a listener that has not come back.
	turnTimeout = 2 * time.Minute
	// askInterval and longestAskInterval bound the pause after which a waiting listener may ask again. It grows with the
	// number of waiting listeners, so that five ask every two seconds, and no turn is free for longer, until 300 wait.
	askInterval, longestAskInterval = 2 * time.Second, 2 * time.Minute
)

// Turns are taken by listeners, which are named by their objects. In the zero value all turns are free. Safe for
// concurrent use.
type Turns struct {
	mu sync.Mutex
	// taken has the time at which each turn began, and waiting the time at which each of the others asked last.
	taken, waiting map[types.NamespacedName]time.Time
}

// Take takes a turn for a listener, or returns the pause before it may ask again. A listener that has a turn keeps it.
func (t *Turns) Take(listener types.NamespacedName, now time.Time) (askAgain time.Duration, taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken == nil {
		t.taken, t.waiting = map[types.NamespacedName]time.Time{}, map[types.NamespacedName]time.Time{}
	}
	forget(t.taken, now.Add(-turnTimeout))
	forget(t.waiting, now.Add(-2*longestAskInterval)) // they no longer want one
	if _, has := t.taken[listener]; has || len(t.taken) < most {
		if !has {
			t.taken[listener] = now
		}
		delete(t.waiting, listener)
		return 0, true
	}
	t.waiting[listener] = now
	return min(askInterval*time.Duration(1+len(t.waiting)/most), longestAskInterval), false
}

// Return gives a listener's turn back, if it has one: it works again, or is gone.
func (t *Turns) Return(listener types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, listener)
	delete(t.waiting, listener)
}

// forget drops what is older.
func forget(moments map[types.NamespacedName]time.Time, oldest time.Time) {
	for listener, moment := range moments {
		if moment.Before(oldest) {
			delete(moments, listener)
		}
	}
}
