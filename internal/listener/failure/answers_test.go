package failure

import (
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

func pollFailure(cause error) error {
	return &actions.NetworkError{Endpoint: actions.EndpointGetMessage, Err: cause}
}

func pollAnswer(status int) error {
	return &actions.Error{Endpoint: actions.EndpointGetMessage, StatusCode: status}
}

func TestWhichPollsEndedWhileTheyWereHeld(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		took time.Duration
		want bool
	}{
		"no error":             {nil, time.Minute, false},
		"connection closed":    {pollFailure(io.EOF), HeldAtLeast, true},
		"closed within answer": {pollFailure(io.ErrUnexpectedEOF), HeldAtLeast, true},
		"connection reset":     {pollFailure(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), HeldAtLeast, true},
		"own deadline": {
			pollFailure(&actions.TimeoutError{Limit: actions.PollTimeout}), actions.PollTimeout, true,
		},
		"408":             {pollAnswer(http.StatusRequestTimeout), HeldAtLeast, true},
		"502":             {pollAnswer(http.StatusBadGateway), HeldAtLeast, true},
		"504":             {pollAnswer(http.StatusGatewayTimeout), HeldAtLeast, true},
		"too soon":        {pollFailure(io.EOF), HeldAtLeast - 1, false},
		"answer too soon": {pollAnswer(http.StatusGatewayTimeout), HeldAtLeast - 1, false},
		"500":             {pollAnswer(http.StatusInternalServerError), time.Minute, false},
		"403":             {pollAnswer(http.StatusForbidden), time.Minute, false},
		"no connection":   {pollFailure(&net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}), time.Minute, false},
		"connection refused": {
			pollFailure(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), time.Minute, false,
		},
		"of another call": {
			&actions.NetworkError{Endpoint: actions.EndpointRefreshSession, Err: io.EOF}, time.Minute, false,
		},
		"answer of another call": {
			&actions.Error{Endpoint: actions.EndpointRegister, StatusCode: 504}, time.Minute, false,
		},
		"rate limit": {&actions.RateLimitedError{Err: pollAnswer(http.StatusForbidden)}, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := EndedWhileHeld(test.err, test.took); got != test.want {
				t.Errorf("%v after %s: %t, want %t", test.err, test.took, got, test.want)
			}
		})
	}
}
