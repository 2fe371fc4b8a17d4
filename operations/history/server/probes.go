package server

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// ProbeOptions have what probes ask about.
type ProbeOptions struct {
	Ledger   *ledger.Ledger
	Log      logr.Logger
	Registry *prometheus.Registry
	// Started reports whether the cluster's objects have been read; Health names what only a restart may mend.
	Started func() bool
	Health  func() error
}

// Probes returns the handler for the kubelet and Prometheus. It has no row of the ledger, and no name that a workflow
// has given, because everybody in the cluster may reach it.
func Probes(options ProbeOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", options.healthy)
	mux.HandleFunc("GET /readyz", options.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(options.Registry, promhttp.HandlerOpts{}))
	return mux
}

func (o *ProbeOptions) healthy(w http.ResponseWriter, _ *http.Request) {
	if err := o.Health(); err != nil {
		o.Log.Error(err, "The ledger is not healthy")
		http.Error(w, "the ledger is stuck; the log says where", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// ready fails while the database does not answer: no question can be answered then.
func (o *ProbeOptions) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	switch err := o.Ledger.Ping(ctx); {
	case err != nil:
		o.Log.Error(err, "The database does not answer")
		http.Error(w, "the database does not answer; the log says why", http.StatusServiceUnavailable)
	case !o.Started():
		http.Error(w, "runners and scale sets have not been read yet", http.StatusServiceUnavailable)
	default:
		_, _ = w.Write([]byte("ok\n"))
	}
}
