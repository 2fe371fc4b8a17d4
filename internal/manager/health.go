package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// stuckAfter is the longest a reconcile may run. reconcileTimeout ends its context long before, so one that runs
	// on ignores it, and only a restart frees its worker.
	stuckAfter = 5 * time.Minute
	// longestReconcile is controller-runtime's metric of the longest reconcile under way, in seconds, by controller.
	longestReconcile = metrics.WorkQueueSubsystem + "_" + metrics.LongestRunningProcessorKey

	// syncProbe is how long /readyz waits for caches; kubelet gives a probe 1 s unless told otherwise.
	syncProbe = 500 * time.Millisecond
	// headerTimeout and shutdownTimeout keep a stalled prober from holding anything.
	headerTimeout   = 5 * time.Second
	shutdownTimeout = time.Second
)

var errStarting = errors.New("the manager is starting")

// health answers the kubelet. It is served by a server of its own rather than by controller-runtime's, because it has
// to say "not ready" while the manager still waits for its CRDs.
type health struct {
	gatherer prometheus.Gatherer

	mu sync.Mutex
	// blocked is why the manager has not started, nil once it has; synced then tells whether caches are filled.
	blocked error
	synced  func(context.Context) bool
}

func newHealth(gatherer prometheus.Gatherer) *health {
	return &health{gatherer: gatherer, blocked: errStarting}
}

// block says why the manager has not started; nil means that it is about to.
func (h *health) block(reason error) {
	if reason == nil {
		reason = errStarting
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocked = reason
}

// started makes readiness a matter of filled caches. A manager that stands by for the leader is as ready as the leader.
func (h *health) started(synced func(context.Context) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocked, h.synced = nil, synced
}

func (h *health) ready(request *http.Request) error {
	h.mu.Lock()
	blocked, synced := h.blocked, h.synced
	h.mu.Unlock()
	if blocked != nil {
		return blocked
	}
	ctx, cancel := context.WithTimeout(request.Context(), syncProbe)
	defer cancel()
	if !synced(ctx) {
		return errors.New("caches are not filled yet")
	}
	return nil
}

// alive fails when a worker is stuck. It never fails because of GitHub or the API server: a restart would not help.
func (h *health) alive(*http.Request) error {
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
			if running > stuckAfter {
				return fmt.Errorf("a reconcile has been running for %s", running.Round(time.Second))
			}
		}
	}
	return nil
}

// serve answers at the address until stop is called. An address that means no server is served by nobody.
func (h *health) serve(address string, log logr.Logger) (stop func(), err error) {
	if !serves(address) {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve health checks; change --health-probe-bind-address: %w", err)
	}
	// What was bound, not what was asked for: port 0 is any that is free.
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
