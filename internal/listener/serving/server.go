// Package serving serves a listener's metrics and probes. Neither is worth ending a listener for: a server that can't
// listen is logged.
package serving

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// A server that is stopped waits for requests in flight for serverShutdownTimeout.
const serverShutdownTimeout = 5 * time.Second

// Servers are the two servers of a listener, or one if both have the same address. Make them with Start.
type Servers struct {
	probes, metrics *server
	probesAt        string
	metricsHandler  http.Handler
	// metricsAtProbes is set while the probes' server serves metrics too.
	metricsAtProbes atomic.Bool
}

// Start serves probes at an address that stays the same. Metrics wait for ServeMetrics.
func Start(probesAt string, health *Health, metrics http.Handler, log logr.Logger) *Servers {
	s := &Servers{
		probes: &server{name: "health", log: log}, metrics: &server{name: "metrics", log: log},
		probesAt: probesAt, metricsHandler: metrics,
	}
	s.probes.serve(probesAt, health.handler(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if !s.metricsAtProbes.Load() {
			http.NotFound(answer, request)
			return
		}
		metrics.ServeHTTP(answer, request)
	})))
	return s
}

// ServeMetrics serves metrics at address, which may be another one than before or that of the probes. An empty address
// stops that.
func (s *Servers) ServeMetrics(address string) {
	same := sameAddress(address, s.probesAt)
	s.metricsAtProbes.Store(same)
	if same {
		address = ""
	}
	s.metrics.serve(address, s.metricsHandler)
}

// Stop stops both servers after requests in flight.
func (s *Servers) Stop() {
	s.probes.stop()
	s.metrics.stop()
}

// server serves HTTP at an address that may change.
type server struct {
	name    string
	log     logr.Logger
	address string
	http    *http.Server
}

// serve makes the server listen at address. An empty address stops it. If it can't listen, it logs that and tries again
// when the configuration changes: neither metrics nor probes are worth ending a listener for.
func (s *server) serve(address string, handler http.Handler) {
	if address == s.address {
		return
	}
	s.stop()
	if address == "" {
		return
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		s.log.Error(err, "Server can't listen", "server", s.name, "address", address)
		return
	}
	s.address = address
	// The actual address: port 0 means any free port.
	s.log.V(1).Info("Server listens", "server", s.name, "address", listener.Addr().String())
	s.http = &http.Server{Handler: handler, ReadHeaderTimeout: serverShutdownTimeout}
	serving := s.http
	go func() {
		if err := serving.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error(err, "Server ended", "server", s.name)
		}
	}()
}

func (s *server) stop() {
	if s.http == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverShutdownTimeout)
	defer cancel()
	_ = s.http.Shutdown(ctx) // at worst it cuts off a scrape or a probe
	s.http, s.address = nil, ""
}

// sameAddress reports whether two addresses share a port, so that a second server can't listen and one serves both.
// Port 0, which means any free port, is never shared.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || (anyHost(hostA) && anyHost(hostB))
}

// anyHost reports whether a server at host listens on all addresses of the machine.
func anyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || (ip != nil && ip.IsUnspecified())
}
