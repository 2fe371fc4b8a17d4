package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// A reconcile that has run for stuckTimeout is stuck. reconcileTimeout ends its context long before that, so a
	// reconcile that is still running ignores its context, and only a restart frees its worker.
	stuckTimeout = 5 * time.Minute
	// longestReconcile is controller-runtime's metric of the longest reconcile now running, in seconds, by controller.
	longestReconcile = metrics.WorkQueueSubsystem + "_" + metrics.LongestRunningProcessorKey

	// lookInterval is the shortest time between two looks for a stuck worker. Each costs as much as a scrape: a second
	// and more with thousands of scale sets, whoever created them.
	lookInterval = 15 * time.Second

	// /readyz waits for caches for syncProbe. By default the kubelet gives a probe 1 s.
	syncProbe = 500 * time.Millisecond
	// headerTimeout and shutdownTimeout keep a stalled client from blocking the server or its shutdown.
	headerTimeout   = 5 * time.Second
	shutdownTimeout = time.Second
)

var errStarting = errors.New("the manager is starting")

// health answers the kubelet's probes. It has its own server instead of controller-runtime's, because it must already
// say "not ready" while the manager waits for its CRDs.
type health struct {
	gatherer prometheus.Gatherer

	// waiting, if set, returns what keeps the manager from acting though it has started.
	waiting atomic.Pointer[func() error]

	mu sync.Mutex
	// blocked is the cause that keeps the manager from starting. When synced is set it has started, and synced says
	// whether the caches are filled.
	blocked error
	synced  func(context.Context) bool
	// stuck is the result of the last look for a stuck worker, nil if there is none. That look began at lookedAt;
	// looking is set until it ends.
	stuck    error
	lookedAt time.Time
	looking  bool
}

// report remembers why the manager has not started, nil if it is about to; or, with synced, that it has. It is then
// ready as soon as synced says so, a standby as well as the leader.
func (h *health) report(blocked error, synced func(context.Context) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocked, h.synced = blocked, synced
}

func (h *health) ready(request *http.Request) error {
	h.mu.Lock()
	blocked, synced := h.blocked, h.synced
	h.mu.Unlock()
	if synced == nil {
		return cmp.Or(blocked, errStarting)
	}
	ctx, cancel := context.WithTimeout(request.Context(), syncProbe)
	defer cancel()
	if !synced(ctx) {
		return errors.New("caches are not filled yet")
	}
	if waiting := h.waiting.Load(); waiting != nil {
		return (*waiting)()
	}
	return nil
}

// alive fails when a worker is stuck. It never fails because of GitHub or the API server: a restart would not help. It
// returns the result of the last look, because the kubelet doesn't wait for a new one.
func (h *health) alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := time.Since(h.lookedAt)
	switch {
	case h.looking && since > stuckTimeout:
		return fmt.Errorf("the metrics have not been gathered for %s", since.Round(time.Second))
	case !h.looking && since >= lookInterval:
		h.looking, h.lookedAt = true, time.Now()
		go h.look()
	}
	return h.stuck
}

func (h *health) look() {
	stuck := h.findStuck()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stuck, h.looking = stuck, false
}

// findStuck returns an error with the time for which a reconcile has been running, if that is too long.
func (h *health) findStuck() error {
	families, err := h.gatherer.Gather()
	if err != nil {
		return nil // a broken metric is no reason to kill a working manager
	}
	for _, family := range families {
		if family.GetName() != longestReconcile {
			continue
		}
		for _, metric := range family.GetMetric() {
			running := time.Duration(metric.GetGauge().GetValue() * float64(time.Second))
			if running > stuckTimeout {
				return fmt.Errorf("a reconcile has been running for %s", running.Round(time.Second))
			}
		}
	}
	return nil
}

// serve answers at the address until stop is called. It does nothing if the address turns the server off.
func (h *health) serve(address string, log logr.Logger) (stop func(), err error) {
	if !serves(address) {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve health checks; change --health-probe-bind-address: %w", err)
	}
	// Log the bound address, not the configured one: port 0 means any free port.
	log.Info("Serving health checks", "address", listener.Addr().String())
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Shutdown; if it fails otherwise, the kubelet notices
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		_ = server.Shutdown(ctx)
		<-done
	}, nil
}

func (h *health) handler() http.Handler {
	routes := http.NewServeMux()
	for path, check := range map[string]healthz.Checker{"/healthz": h.alive, "/readyz": h.ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: map[string]healthz.Checker{"manager": check}})
		routes.Handle(path, handler)
		routes.Handle(path+"/", handler)
	}
	return routes
}
