package manager

import (
	"flag"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/harrier-ci/harrier/internal/metricsauth"
)

// registerMetricsServer defines the flags of the manager's own metrics, under the names that kubebuilder gave them.
func (o *Options) registerMetricsServer(flags *flag.FlagSet) {
	flags.StringVar(&o.MetricsAddress, "metrics-addr", ":8080", "address of the metrics server; 0 turns it off")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", false,
		"serve metrics by HTTPS, to those only who send a token that may get the nonResourceURL /metrics")
	flags.StringVar(&o.MetricsCertificates, "metrics-cert-path", "",
		"directory with tls.crt and tls.key for --metrics-secure, read again when they change; empty: a certificate signed by itself")
}

// metricsServer is how controller-runtime serves the metrics.
func (o Options) metricsServer() metricsserver.Options {
	server := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !serves(o.MetricsAddress) {
		server.BindAddress = disabledAddress // controller-runtime takes an empty address for its default
	}
	if o.MetricsSecure {
		server.SecureServing, server.CertDir, server.FilterProvider = true, o.MetricsCertificates, metricsauth.New
	}
	return server
}
