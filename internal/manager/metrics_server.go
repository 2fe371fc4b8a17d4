package manager

import (
	"flag"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/harrier-ci/harrier/internal/metricsauth"
)

// registerMetricsServer defines the flags of the manager's own metrics, under kubebuilder's names.
func (o *Options) registerMetricsServer(flags *flag.FlagSet) {
	flags.StringVar(&o.MetricsAddress, "metrics-addr", ":8080", "address of the metrics server; 0 turns it off")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", false,
		"serve metrics over HTTPS, and only to clients whose token may get the nonResourceURL /metrics")
	flags.StringVar(&o.MetricsCertificates, "metrics-cert-path", "",
		"directory with tls.crt and tls.key for --metrics-secure, reloaded on change; empty: a self-signed certificate")
}

// metricsServer returns the settings of controller-runtime's metrics server.
func (o Options) metricsServer() metricsserver.Options {
	server := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !serves(o.MetricsAddress) {
		server.BindAddress = disabledAddress // controller-runtime treats an empty address as its default
	}
	if o.MetricsSecure {
		server.SecureServing, server.CertDir, server.FilterProvider = true, o.MetricsCertificates, metricsauth.New
	}
	return server
}
