package manager

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// This test is inside of the package: Run's configuration has a function that chooses its proxy, and client-go shares no
// connection between such configurations. Connections are apart without that, too.
func TestConfigurationsHaveConnectionsOfTheirOwn(t *testing.T) {
	config := serveRemoteAddresses(t)
	writes := remoteAddress(t, config)
	if again := remoteAddress(t, rest.CopyConfig(config)); again != writes {
		t.Fatalf("two requests of one configuration came from %s and %s, want one connection", writes, again)
	}
	watches := remoteAddress(t, withOwnConnection(config))
	lease := remoteAddress(t, leaseConfig(config))
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

func remoteAddress(t *testing.T, config *rest.Config) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	// Keeps the client reachable until then: client-go drops the connection of a collected one.
	t.Cleanup(client.CloseIdleConnections)
	response, err := client.Get(config.Host)
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
