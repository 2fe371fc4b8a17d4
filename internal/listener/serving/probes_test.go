package serving_test

import (
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/listener/serving"
	"github.com/harrier-ci/harrier/internal/testkube/ports"
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
	h := serving.NewHealth(clk)
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

// The loop wakes every 10 s: a minute without it is six times that. A poll is held for 50 s: 100 s without a good one
// are two.
func TestProbes(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(noon)
	h := serving.NewHealth(clk)
	probes := freeAddress(t)
	servers := serving.Start(probes, h, http.NotFoundHandler(), logr.Discard())
	defer servers.Stop()
	expect := func(when, path string, want int) {
		t.Helper()
		if got, body := ask(probes + path); got != want {
			t.Errorf("%s: %s = %d %s, want %d", when, path, got, body, want)
		}
	}
	expect("before the first session", "/healthz", http.StatusOK)
	expect("before the first session", "/readyz", http.StatusServiceUnavailable)
	h.Polled(noon)
	expect("with a session", "/readyz", http.StatusOK)
	clk.SetTime(noon.Add(time.Minute))
	expect("when the loop takes its time", "/healthz", http.StatusOK)
	clk.SetTime(noon.Add(61 * time.Second))
	expect("when the loop is stuck", "/healthz", http.StatusServiceUnavailable)
	clk.SetTime(noon.Add(100 * time.Second))
	expect("after a poll that was missed", "/readyz", http.StatusOK)
	clk.SetTime(noon.Add(101 * time.Second))
	h.Turned(clk.Now())
	expect("without a good poll for long", "/healthz", http.StatusOK)
	expect("without a good poll for long", "/readyz", http.StatusServiceUnavailable)
	h.Polled(clk.Now())
	h.Lost()
	expect("when the session is lost", "/readyz", http.StatusServiceUnavailable)
}

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := ports.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(free[0]))
}
