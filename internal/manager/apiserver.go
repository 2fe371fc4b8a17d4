package manager

import (
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Requests of one configuration share HTTP/2 connections, on each of which an API server serves 100 requests at a time and
// writes answers and events of watches one after the other. In a burst two hundred writes are under way. What is to be
// heard, or kept, in spite of them has a connection of its own: the watches, and the leader's Lease.

// apart returns a copy of the configuration whose requests share no connection with those of others.
func apart(cluster *rest.Config) *rest.Config {
	cluster = rest.CopyConfig(cluster)
	// client-go keeps connections by dialer among others. The times are those of its own one.
	cluster.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	return cluster
}

// newCache returns a cache that watches on a connection of its own.
func newCache(cluster *rest.Config, options cache.Options) (cache.Cache, error) {
	cluster = apart(cluster)
	client, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("set up the connection of watches: %w", err)
	}
	options.HTTPClient = client
	return cache.New(cluster, options)
}
