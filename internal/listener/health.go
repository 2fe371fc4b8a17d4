package listener

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// turnLimit is six heartbeats: a loop that slept longer is stuck, or the node is.
	turnLimit = 6 * heartbeat
	// pollLength is how long the service holds a poll.
	pollLength = 50 * time.Second
)

// health answers the kubelet. Times are Unix nanoseconds, 0 for never.
type health struct {
	clock              clock.PassiveClock
	lastTurn, lastPoll atomic.Int64
}

func (h *health) turned(at time.Time) { h.lastTurn.Store(at.UnixNano()) }

// polled notes a good poll, or a session just opened, which is as good.
func (h *health) polled(at time.Time) { h.lastPoll.Store(at.UnixNano()) }

// lost notes that no session is held.
func (h *health) lost() { h.lastPoll.Store(0) }

// alive fails only when the loop does not turn: nothing that GitHub or the API server do makes a restart useful.
func (h *health) alive() error {
	if age := h.age(&h.lastTurn); age > turnLimit {
		return fmt.Errorf("the loop has not turned for %s", age.Round(time.Second))
	}
	return nil
}

// ready says that messages are received.
func (h *health) ready() error {
	if h.lastPoll.Load() == 0 {
		return fmt.Errorf("no message session is held; status.listener of the EphemeralRunnerSet says why")
	}
	if age := h.age(&h.lastPoll); age > 2*pollLength {
		return fmt.Errorf("the last good poll was %s ago; status.listener of the EphemeralRunnerSet says why", age.Round(time.Second))
	}
	return nil
}

func (h *health) age(of *atomic.Int64) time.Duration {
	return h.clock.Since(time.Unix(0, of.Load()))
}

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
