package listener

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// turnLimit is six heartbeats: a loop that slept longer is stuck, or the node is.
	turnLimit = 6 * heartbeat
	// pollLength is how long the service holds a poll.
	pollLength = 50 * time.Second
)

// health answers the kubelet. Times are nil for never, and whole: a number of seconds would lack the reading of the clock
// that nobody sets, and an hour's step of the other one would have a listener killed that is well.
type health struct {
	clock              clock.PassiveClock
	lastTurn, lastPoll atomic.Pointer[time.Time]
}

func (h *health) turned(at time.Time) { h.lastTurn.Store(&at) }

// polled notes a good poll, or a session just opened, which is as good.
func (h *health) polled(at time.Time) { h.lastPoll.Store(&at) }

// lost notes that no session is held.
func (h *health) lost() { h.lastPoll.Store(nil) }

// alive fails only when the loop does not turn: nothing that GitHub or the API server do makes a restart useful.
func (h *health) alive() error {
	if age := h.age(h.lastTurn.Load()); age > turnLimit {
		return fmt.Errorf("the loop has not turned for %s", age.Round(time.Second))
	}
	return nil
}

// ready says that messages are received.
func (h *health) ready() error {
	last := h.lastPoll.Load()
	if last == nil {
		return fmt.Errorf("no message session is held; status.listener of the EphemeralRunnerSet says why")
	}
	if age := h.age(last); age > 2*pollLength {
		return fmt.Errorf("the last good poll was %s ago; status.listener of the EphemeralRunnerSet says why", age.Round(time.Second))
	}
	return nil
}

func (h *health) age(of *time.Time) time.Duration { return h.clock.Since(ptr.Deref(of, time.Time{})) }

// handler serves /healthz and /readyz.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{"/healthz": h.alive, "/readyz": h.ready} {
		mux.HandleFunc(path, func(answer http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(answer, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = answer.Write([]byte("ok\n"))
		})
	}
	return mux
}
