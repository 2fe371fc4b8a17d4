package manager

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// A burst's writes fill the streams of a connection; watches and the Lease must not stand in line behind them.
func TestWatchesAndTheLeaseHaveConnectionsOfTheirOwn(t *testing.T) {
	cluster := serveRemoteAddresses(t)
	writes := remoteAddress(t, cluster)
	if again := remoteAddress(t, rest.CopyConfig(cluster)); again != writes {
		t.Fatalf("two requests of one configuration came from %s and %s, want one connection", writes, again)
	}
	watches := remoteAddress(t, apart(cluster))
	lease := remoteAddress(t, managerOptions(cluster, defaults(), logr.Discard()).LeaderElectionConfig)
	if watches == writes || lease == writes || watches == lease {
		t.Errorf("writes, watches and Lease come from %s, %s and %s, want three connections", writes, watches, lease)
	}
}

// serveRemoteAddresses starts a server that answers with the address that the request's connection comes from.
func serveRemoteAddresses(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
}

func remoteAddress(t *testing.T, cluster *rest.Config) string {
	t.Helper()
	client, err := rest.HTTPClientFor(cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections) // so that it is held until then: client-go forgets the connection of one that is garbage
	response, err := client.Get(cluster.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	address, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(address)
}
