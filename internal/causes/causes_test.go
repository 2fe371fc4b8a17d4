package causes_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// named is an error of a package that this one doesn't know.
type named struct{ error }

func (named) CauseReason() string { return "ScaleSetInUse" }

var (
	forbidden = &actions.Error{StatusCode: 403}
	missing   = &actions.Error{StatusCode: 404, Endpoint: actions.EndpointFindRunnerGroup}
	later     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func TestACauseHasOneName(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"nothing":         {nil, ""},
		"not GitHub's":    {errors.New("the API server is away"), ""},
		"bad credentials": {forbidden, "Unauthorized"},
		"refused on the way": {
			&actions.NetworkError{Err: errors.New("reset"), LastAnswer: forbidden}, "Unauthorized",
		},
		"useless credentials":      {actions.ErrInvalidCredentials, "CredentialsInvalid"},
		"no such group":            {missing, "RunnerGroupNotFound"},
		"no scale set":             {actions.ErrScaleSetNotFound, "ScaleSetNotFound"},
		"another session":          {actions.ErrSessionConflict, "SessionConflict"},
		"rate limit":               {&actions.RateLimitedError{Err: actions.ErrUnauthorized}, "RateLimited"},
		"no config URL":            {&actions.InvalidConfigURLError{}, "InvalidConfigURL"},
		"a redirect away from TLS": {&actions.InsecureRedirectError{}, "InsecureRedirect"},
		"another redirect":         {&actions.Error{StatusCode: 307}, "RefusedByGitHub"},
		"a bad request":            {&actions.Error{StatusCode: 400}, "RefusedByGitHub"},
		"a proxy's timeout":        {&actions.Error{StatusCode: 408}, "GitHubUnavailable"},
		"an error of GitHub":       {&actions.Error{StatusCode: 500}, "GitHubUnavailable"},
		"no answer":                {&actions.NetworkError{Err: errors.New("refused")}, "GitHubUnavailable"},
		"no such host": {
			&actions.NetworkError{Err: &net.OpError{Err: &net.DNSError{Name: "gihub.com", IsNotFound: true}}}, "HostNotFound",
		},
		"no answer of the DNS server": {
			&actions.NetworkError{Err: &net.OpError{Err: &net.DNSError{Name: "github.com", IsTemporary: true}}}, "GitHubUnavailable",
		},
		"no such host of somebody else's": {&net.DNSError{Name: "database", IsNotFound: true}, ""},
		"no answer after a refusal": {
			&actions.NetworkError{Err: errors.New("reset"), LastAnswer: &actions.Error{StatusCode: 400}},
			"GitHubUnavailable",
		},
		"a web page":        {&actions.UnexpectedResponseError{Err: actions.ErrForeignAnswer}, "GitHubUnavailable"},
		"another package's": {named{forbidden}, "ScaleSetInUse"},
		"one of several":    {errors.Join(errors.New("first"), named{errors.New("taken")}), "ScaleSetInUse"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.err
			if err != nil {
				err = fmt.Errorf("register: %w", err)
			}
			if got := causes.Of(err).Reason; got != test.reason {
				t.Errorf("reason %q, want %q", got, test.reason)
			}
		})
	}
}

// Whoever reads a reason in a status is told the same as who has met the error.
func TestACauseHasTheMeaningOfItsReason(t *testing.T) {
	if of := causes.Of(fmt.Errorf("register: %w", missing)); of.Row != meaning.For("RunnerGroupNotFound") ||
		!strings.Contains(of.Next(), "runnerGroup") {
		t.Errorf("%+v", of)
	}
}

func TestWhenToTryAgain(t *testing.T) {
	for _, err := range []error{
		&actions.RateLimitedError{Until: later, Err: forbidden}, &actions.Error{StatusCode: 503, RetryAt: later},
	} {
		if got := causes.Of(fmt.Errorf("call: %w", err)).RetryAt; !got.Equal(later) {
			t.Errorf("%v: again at %s, want %s", err, got, later)
		}
	}
	if got := causes.Of(forbidden).RetryAt; !got.IsZero() {
		t.Errorf("again at %s, though GitHub named no time", got)
	}
}
