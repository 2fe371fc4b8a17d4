package listener

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
	// turnTimeout is how long an iteration of the loop may take. After six heartbeats without one, the loop or the node is stuck.
	turnTimeout = 6 * heartbeatPeriod
	// pollHoldPeriod is how long the service holds a poll if it has no message.
	pollHoldPeriod = 50 * time.Second
)

// health answers the kubelet's probes. Times are *time.Time (nil: never) rather than Unix seconds because they carry the monotonic
// clock reading: otherwise a wall clock changed by an hour would fail the liveness probe of a healthy listener.
type health struct {
	clock                  clock.PassiveClock
	lastTurnAt, lastPollAt atomic.Pointer[time.Time]
	// unwanted is set while the set takes no jobs, so that no session is wanted.
	unwanted atomic.Bool
}

// turned notes an iteration of the loop.
func (h *health) turned(at time.Time) { h.lastTurnAt.Store(&at) }

// polled notes a good poll. A session that was just opened counts as one.
func (h *health) polled(at time.Time) { h.lastPollAt.Store(&at) }

// lost notes that no session is held.
func (h *health) lost() { h.lastPollAt.Store(nil) }

// alive fails only if the loop hangs: whatever GitHub or the API server does, a restart would not help.
func (h *health) alive() error {
	if age := h.age(h.lastTurnAt.Load()); age > turnTimeout {
		return fmt.Errorf("the loop has not turned for %s", age.Round(time.Second))
	}
	return nil
}

// ready fails unless messages can be received, or none are wanted.
func (h *health) ready() error {
	if h.unwanted.Load() {
		return nil
	}
	last := h.lastPollAt.Load()
	if last == nil {
		return errors.New("no message session is held; status.listener of the EphemeralRunnerSet says why")
	}
	if age := h.age(last); age > 2*pollHoldPeriod {
		return fmt.Errorf("the last good poll was %s ago; status.listener of the EphemeralRunnerSet says why", age.Round(time.Second))
	}
	return nil
}

func (h *health) age(of *time.Time) time.Duration { return h.clock.Since(ptr.Deref(of, time.Time{})) }

// handler serves /healthz and /readyz, and other at all other paths.
func (h *health) handler(other http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", other)
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
