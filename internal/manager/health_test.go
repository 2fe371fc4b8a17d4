package manager

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// These tests are inside of the package: time passes for them in bubbles, which have no network, and a process has one
// registry of metrics.

func (h *health) status(path string) int {
	answer := httptest.NewRecorder()
	h.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code
}

func TestReadiness(t *testing.T) {
	h := &health{gatherer: prometheus.NewRegistry()}
	expect := func(when string, want int) {
		t.Helper()
		if got := h.status("/readyz"); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	expect("at first", http.StatusInternalServerError)
	h.report(errors.New("CRDs are outdated"), nil)
	expect("with outdated CRDs", http.StatusInternalServerError)
	h.report(nil, nil)
	expect("before the start", http.StatusInternalServerError)

	synced := false
	h.report(nil, func(context.Context) bool { return synced })
	expect("with empty caches", http.StatusInternalServerError)
	synced = true
	expect("with filled caches", http.StatusOK)
	if got := h.status("/healthz"); got != http.StatusOK {
		t.Errorf("/healthz: %d", got)
	}
}

func TestLivenessFailsWithAStuckWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		running := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_longest_running_processor_seconds"},
			[]string{"name"})
		registry.MustRegister(running)
		h := &health{gatherer: registry}
		expect := func(when string, want int) {
			t.Helper()
			for range 2 { // what one probe has looked for, the next one says
				h.status("/healthz")
				<-time.After(15 * time.Second)
			}
			if got := h.status("/healthz"); got != want {
				t.Errorf("%s: %d, want %d", when, got, want)
			}
		}
		running.WithLabelValues("quick").Set(1)
		running.WithLabelValues("slow").Set(300)
		expect("after the longest time", http.StatusOK)
		running.WithLabelValues("slow").Set(301)
		expect("after more", http.StatusInternalServerError)
		running.WithLabelValues("slow").Set(0)
		expect("when it is over", http.StatusOK)
	})
}

// Anybody who may create scale sets can make the metrics large. The kubelet gives up after seconds, and restarts the
// manager after three times.
func TestLivenessDoesNotWaitForMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, metrics := prometheus.NewRegistry(), &slowMetrics{release: make(chan struct{})}
		registry.MustRegister(metrics)
		h := &health{gatherer: registry}
		begun := time.Now()
		for time.Since(begun) <= 5*time.Minute {
			before := time.Now()
			if got := h.status("/healthz"); got != http.StatusOK || time.Since(before) != 0 {
				t.Fatalf("after %s: %d in %s", time.Since(begun), got, time.Since(before))
			}
			<-time.After(20 * time.Second)
		}
		if got := h.status("/healthz"); got != http.StatusInternalServerError || metrics.gathered.Load() != 1 {
			t.Errorf(
				"metrics that can't be gathered: %d after %d attempts, want a failure after one",
				got, metrics.gathered.Load(),
			)
		}
		close(metrics.release)
		synctest.Wait()
		if got := h.status("/healthz"); got != http.StatusOK {
			t.Errorf("when they could be: %d", got)
		}
		synctest.Wait()
	})
}

// slowMetrics can't be gathered before their release.
type slowMetrics struct {
	release  chan struct{}
	gathered atomic.Int32
}

func (m *slowMetrics) Describe(chan<- *prometheus.Desc) {}

func (m *slowMetrics) Collect(chan<- prometheus.Metric) {
	m.gathered.Add(1)
	<-m.release
}
