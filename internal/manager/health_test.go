package manager

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

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
	registry := prometheus.NewRegistry()
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: longestReconcile}, []string{"name"})
	registry.MustRegister(running)
	h := &health{gatherer: registry}

	running.WithLabelValues("quick").Set(1)
	running.WithLabelValues("slow").Set(stuckAfter.Seconds())
	if got := h.status("/healthz"); got != http.StatusOK {
		t.Errorf("after %s: %d", stuckAfter, got)
	}
	running.WithLabelValues("slow").Set(stuckAfter.Seconds() + 1)
	if got := h.status("/healthz"); got != http.StatusInternalServerError {
		t.Errorf("after more: %d", got)
	}
}

func TestHealthServer(t *testing.T) {
	h := &health{gatherer: prometheus.NewRegistry()}
	for _, off := range []string{"", "0"} {
		stop, err := h.serve(off, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		stop()
	}
	if _, err := h.serve("256.0.0.1:1", logr.Discard()); err == nil {
		t.Error("an impossible address is no error")
	}
	stop, err := h.serve("127.0.0.1:0", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	stop()
}
