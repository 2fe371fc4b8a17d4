package exchange

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// asked starts a server with that answer, and returns a caller and a request to it.
func asked(t *testing.T, options Options, answer http.HandlerFunc) (*Caller, Request) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	config, err := configurl.Parse(server.URL + "/acme")
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	caller := New(config, options)
	t.Cleanup(caller.CloseIdleConnections)
	return caller, Request{Endpoint: failure.EndpointGenerateJITConfig, Method: http.MethodPost, URL: address}
}

// The deadlines are promises of the client's documentation.
func TestDeadlines(t *testing.T) {
	caller := New(&configurl.URL{}, Options{})
	if want := (Deadlines{
		Call:    30 * time.Second,
		Attempt: 15 * time.Second,
		Poll:    75 * time.Second,
	}); caller.Deadlines != want {
		t.Errorf("got %+v, want %+v", caller.Deadlines, want)
	}
	var pauses time.Duration
	for i := range maxRetries {
		pauses += firstBackoff << i
	}
	if pauses*12/10 >= CallTimeout {
		t.Errorf("%s of pauses leave no time for attempts within %s", pauses, CallTimeout)
	}
}
