package serving

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// askedClock records the times whose age is asked for.
type askedClock struct {
	clock.RealClock
	about []time.Time
}

func (c *askedClock) Since(t time.Time) time.Duration {
	c.about = append(c.about, t)
	return c.RealClock.Since(t)
}

// A change of the wall clock must not change the probes' answers: the monotonic reading in a time sees to that.
func TestHealthKeepsTheMonotonicClock(t *testing.T) {
	clk := &askedClock{}
	h := &Health{clock: clk}
	now := time.Now()
	h.Turned(now)
	h.Polled(now)
	if err := h.Alive(); err != nil {
		t.Error(err)
	}
	if err := h.Ready(); err != nil {
		t.Error(err)
	}
	for _, about := range clk.about {
		if about != now { // Equal would compare wall clock readings
			t.Errorf("the age of %s is asked for, want that of %s", about, now)
		}
	}
	if len(clk.about) != 2 {
		t.Errorf("asked %d times, want twice", len(clk.about))
	}
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestProbes(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(noon)
	h := NewHealth(clk)
	expect := func(when, path string, want int) {
		t.Helper()
		answer := httptest.NewRecorder()
		h.handler(http.NotFoundHandler()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %s = %d %s, want %d", when, path, answer.Code, answer.Body, want)
		}
	}
	expect("before the first session", "/healthz", http.StatusOK)
	expect("before the first session", "/readyz", http.StatusServiceUnavailable)
	h.Polled(noon)
	expect("with a session", "/readyz", http.StatusOK)
	clk.SetTime(noon.Add(turnTimeout + time.Second))
	expect("when the loop is stuck", "/healthz", http.StatusServiceUnavailable)
	clk.SetTime(noon.Add(2*PollHold + time.Second))
	h.Turned(clk.Now())
	expect("without a good poll for long", "/healthz", http.StatusOK)
	expect("without a good poll for long", "/readyz", http.StatusServiceUnavailable)
	h.Polled(clk.Now())
	h.Lost()
	expect("when the session is lost", "/readyz", http.StatusServiceUnavailable)
}
