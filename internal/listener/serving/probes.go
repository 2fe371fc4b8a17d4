package serving

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// The loop sleeps for at most HeartbeatInterval.
	HeartbeatInterval = 10 * time.Second
	// An iteration of the loop takes less than turnTimeout. After six heartbeats without one, the loop or the node is
	// stuck.
	turnTimeout = 6 * HeartbeatInterval
	// The service holds a poll for PollHold if it has no message.
	PollHold = 50 * time.Second
)

// Health answers the kubelet's probes. Times are *time.Time (nil: never) rather than Unix seconds because they carry
// the monotonic clock reading: otherwise a wall clock changed by an hour would fail the liveness probe of a healthy
// listener.
type Health struct {
	clock                  clock.PassiveClock
	lastTurnAt, lastPollAt atomic.Pointer[time.Time]
	// Unwanted is set while the set takes no jobs, so that no session is wanted.
	Unwanted atomic.Bool
}

// NewHealth returns the health of a loop that has just begun.
func NewHealth(clk clock.PassiveClock) *Health {
	h := &Health{clock: clk}
	h.Turned(clk.Now())
	return h
}

// Turned remembers an iteration of the loop.
func (h *Health) Turned(at time.Time) { h.lastTurnAt.Store(&at) }

// Polled remembers a good poll. A session that was just opened counts as one.
func (h *Health) Polled(at time.Time) { h.lastPollAt.Store(&at) }

// Lost remembers that no session is held.
func (h *Health) Lost() { h.lastPollAt.Store(nil) }

// Alive fails only if the loop hangs: whatever GitHub or the API server does, a restart would not help.
func (h *Health) Alive() error {
	if age := h.age(h.lastTurnAt.Load()); age > turnTimeout {
		return fmt.Errorf("the loop has not turned for %s", age.Round(time.Second))
	}
	return nil
}

// Ready fails unless messages can be received, or none are wanted.
func (h *Health) Ready() error {
	if h.Unwanted.Load() {
		return nil
	}
	last := h.lastPollAt.Load()
	if last == nil {
		return errors.New("no message session is held; status.listener of the EphemeralRunnerSet says why")
	}
	if age := h.age(last); age > 2*PollHold {
		return fmt.Errorf(
			"the last good poll was %s ago; status.listener of the EphemeralRunnerSet says why",
			age.Round(time.Second),
		)
	}
	return nil
}

func (h *Health) age(of *time.Time) time.Duration { return h.clock.Since(ptr.Deref(of, time.Time{})) }

// handler serves /healthz and /readyz, and other at all other paths.
func (h *Health) handler(other http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", other)
	for path, check := range map[string]func() error{"/healthz": h.Alive, "/readyz": h.Ready} {
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
