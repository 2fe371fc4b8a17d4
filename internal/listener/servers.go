package listener

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

// serverShutdownTimeout is how long a server that is stopped waits for requests in flight.
const serverShutdownTimeout = 5 * time.Second

// server serves HTTP at an address that may change.
type server struct {
	name    string
	log     logr.Logger
	address string
	http    *http.Server
}

// serve makes the server listen at address. An empty address stops it. If it can't listen, it logs that and tries again when
// the configuration changes: neither metrics nor probes are worth ending a listener for.
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

// optionalHandler answers 404 while it is not enabled.
type optionalHandler struct {
	handler http.Handler
	enabled atomic.Bool
}

func (o *optionalHandler) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if !o.enabled.Load() {
		http.NotFound(answer, request)
		return
	}
	o.handler.ServeHTTP(answer, request)
}

// sameAddress reports whether two addresses share a port, so that a second server can't listen and one serves both. Port 0, which
// means any free port, is never shared.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || anyHost(hostA) && anyHost(hostB)
}

// anyHost reports whether a server at host listens on all addresses of the machine.
func anyHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// metricsAddress returns the address at which metrics are served, empty if they are not. override comes from the environment.
func metricsAddress(settings *config.Config, override string) string {
	if !settings.MetricsEnabled() {
		return ""
	}
	if override != "" {
		return override
	}
	return settings.MetricsAddr
}
