package service_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/credential"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
	"github.com/harrier-ci/harrier/github/actions/service"
)

// serviceAt returns the service of a server that lets everybody register.
func serviceAt(t *testing.T, calls http.HandlerFunc) *service.Service {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("POST /api/v3/orgs/acme/actions/runners/registration-token",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token":"registration"}`) })
	mux.HandleFunc("POST /api/v3/actions/runner-registration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"url":%q,"token":"admin"}`, server.URL+"/")
	})
	mux.HandleFunc("/", calls)
	config, err := configurl.Parse(server.URL + "/acme")
	if err != nil {
		t.Fatal(err)
	}
	source, err := credential.NewSource(credential.Credentials{Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	s := service.New(config, source, exchange.Options{})
	t.Cleanup(s.CloseIdleConnections)
	return s
}

func TestCallEndsAtItsDeadline(t *testing.T) {
	s := serviceAt(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, "{}")
	})
	request := service.Request{Endpoint: failure.EndpointGetScaleSet, Method: http.MethodGet, Path: "first"}
	if err := s.Call(t.Context(), request, nil); err != nil {
		t.Fatal(err)
	}
	request.Path, s.Deadlines.Call = "hang", 50*time.Millisecond
	err := s.Call(t.Context(), request, nil)
	timeout, ended := errors.AsType[*failure.TimeoutError](err)
	if !ended || timeout.Limit != 50*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want *TimeoutError after 50 ms", err)
	}
	if !strings.Contains(err.Error(), "no complete answer within 50ms") {
		t.Errorf("%q does not say what deadline passed", err)
	}
}
