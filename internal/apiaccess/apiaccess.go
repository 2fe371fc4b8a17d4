// Package apiaccess says how manager and listener reach the API server, by no proxy that is meant for GitHub, and which of its
// answers they don't believe yet.
package apiaccess

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
)

// WithoutProxy returns a copy of the configuration that uses a proxy only where a kubeconfig names one. The one in the
// environment (HTTPS_PROXY) is for GitHub, and the API server is inside the cluster, where such a proxy seldom reaches.
func WithoutProxy(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.Proxy == nil {
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return config
}
