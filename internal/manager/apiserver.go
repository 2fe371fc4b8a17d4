package manager

import (
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Requests with the same configuration share HTTP/2 connections. On each connection an API server serves 100 requests at a
// time, and writes responses and watch events one after another. A burst has two hundred writes in flight. Watches and the
// renewal of the leader's Lease must not wait for them, so each of the two has its own connection.

// withOwnConnection returns a copy of the configuration whose requests share no connection with others.
func withOwnConnection(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	// client-go caches connections by dialer, among other things. The durations are those of its own dialer.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	return config
}

// newCache returns a cache whose watches have their own connection.
func newCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	config = withOwnConnection(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the connection for watches: %w", err)
	}
	options.HTTPClient = client
	return cache.New(config, options)
}
