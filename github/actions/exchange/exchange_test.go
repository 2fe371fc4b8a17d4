package exchange_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions/configurl"
	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// asked starts a server with that answer, and returns a caller and a request to it.
func asked(
	t *testing.T, options exchange.Options, answer http.HandlerFunc,
) (*exchange.Caller, exchange.Request) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	caller, request := callerOf(t, options, server.URL)
	t.Cleanup(caller.CloseIdleConnections)
	return caller, request
}

// callerOf returns a caller and a request to the server at an address.
func callerOf(t *testing.T, options exchange.Options, server string) (*exchange.Caller, exchange.Request) {
	t.Helper()
	config, err := configurl.Parse(server + "/acme")
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return exchange.New(config, options),
		exchange.Request{Endpoint: failure.EndpointGenerateJITConfig, Method: http.MethodPost, URL: address}
}

// The deadlines are promises of the client's documentation.
func TestDeadlines(t *testing.T) {
	caller := exchange.New(&configurl.URL{}, exchange.Options{})
	if want := (exchange.Deadlines{
		Call:    30 * time.Second,
		Attempt: 15 * time.Second,
		Poll:    75 * time.Second,
	}); caller.Deadlines != want {
		t.Errorf("got %+v, want %+v", caller.Deadlines, want)
	}
}

func TestPollEndsAtItsOwnDeadline(t *testing.T) {
	caller, poll := asked(t, exchange.Options{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	poll.Method, poll.Poll, caller.Deadlines.Poll = http.MethodGet, true, 50*time.Millisecond
	_, err := caller.Do(t.Context(), poll)
	var timeout *failure.TimeoutError
	if !errors.As(err, &timeout) || timeout.Limit != 50*time.Millisecond {
		t.Errorf("got %v, want *TimeoutError", err)
	}
	// The caller's own count: so short a poll may end before the server has seen it.
	var network *failure.NetworkError
	if !errors.As(err, &network) || network.Attempts != 1 {
		t.Errorf("got %v, want 1 attempt: polls are not repeated", err)
	}
}

// Five attempts, with pauses of about 1, 2, 4 and 8 s between them, leave time for the attempts within the 30 s of a
// call.
func TestPausesBetweenAttempts(t *testing.T) {
	paced, attempts := &hastyClock{}, 0
	caller, request := asked(t, exchange.Options{Clock: paced}, func(w http.ResponseWriter, _ *http.Request) {
		attempts++
		w.WriteHeader(http.StatusBadGateway)
	})
	var failed *failure.Error
	if _, err := caller.Do(t.Context(), request); !errors.As(err, &failed) || attempts != 5 {
		t.Errorf("after %d attempts, want 5: %v", attempts, err)
	}
	if len(paced.pauses) != 4 {
		t.Fatalf("pauses %v, want four", paced.pauses)
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		if got := paced.pauses[i]; got < want*8/10 || got > want*12/10 { // they vary by a fifth
			t.Errorf("pause %d of %s, want about %s", i+1, got, want)
		}
	}
}

// hastyClock is a clock on which every pause ends immediately.
type hastyClock struct {
	clock.RealClock
	pauses []time.Duration
}

func (c *hastyClock) NewTimer(pause time.Duration) clock.Timer {
	c.pauses = append(c.pauses, pause)
	return c.RealClock.NewTimer(0)
}
