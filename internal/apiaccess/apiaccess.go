// Package apiaccess has what manager and listener share about reaching the API server: they bypass the proxy that is
// meant for GitHub, and they don't trust a 403 from an API server that has only just started.
package apiaccess

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// WithoutProxy returns a copy of the configuration that uses a proxy only if a kubeconfig names one. The proxy in the
// environment (HTTPS_PROXY) is for GitHub, and often can't reach the API server, which is inside the cluster.
func WithoutProxy(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.Proxy == nil {
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return config
}
