package causes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
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
func TestAReasonHasOneAdvice(t *testing.T) {
	reasons := []string{
		"CredentialsMissing", "CredentialsInvalid", "VaultUnsupported", "VaultNotAllowed", "InvalidConfigURL",
		"InvalidConfiguration", "NameTooLong", "ScaleSetInUse", "AddressNotAllowed", "InsecureRedirect", "RateLimited",
		"RunnerGroupNotFound", "RefusedByGitHub", "ScaleSetNotFound", "SessionConflict", "GitHubUnavailable", "Timeout",
	}
	for _, class := range actions.RefusalClasses() {
		reasons = append(reasons, string(class))
	}
	for _, reason := range reasons {
		cause := causes.For(reason)
		if cause.Reason != reason || cause.Advice == "" || strings.HasSuffix(cause.Advice, ".") ||
			len(cause.Advice) > 400 {
			t.Errorf("%s: %+v", reason, cause)
		}
		if next := cause.Next(); next != "" && next != "; "+cause.Advice {
			t.Errorf("%s: %q is added to the text", reason, next)
		}
	}
	if of := causes.Of(missing); of != causes.For("RunnerGroupNotFound") || of.Next() == "" {
		t.Errorf("%+v of the error, %+v of the reason", of, causes.For("RunnerGroupNotFound"))
	}
	if unknown := causes.For("Evicted"); unknown.Advice != "" || unknown.Next() != "" ||
		unknown.Actor != causes.Nobody {
		t.Errorf("%+v of a reason that is not GitHub's", unknown)
	}
}

func TestWhoHasToAct(t *testing.T) {
	for reason, want := range map[string]causes.Actor{
		"Unauthorized": causes.User, "RunnerGroupNotFound": causes.User, "ClockSkewed": causes.Administrator,
		"IPAddressNotAllowed": causes.GitHub,
		"TooManyFailedLogins": causes.Nobody, "RateLimited": causes.Nobody, "GitHubUnavailable": causes.Nobody,
		"SessionConflict": causes.Nobody,
	} {
		if got := causes.For(reason).Actor; got != want {
			t.Errorf("%s: actor %d, want %d", reason, got, want)
		}
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
