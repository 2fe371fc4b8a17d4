package failure

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

var errBroken = errors.New("broken")

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestReasons(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		reason string
		after  time.Duration
	}{
		"conflict":           {actions.ErrSessionConflict, v1alpha1.ReasonSessionConflict, conflictGrace},
		"session gone":       {actions.ErrSessionNotFound, ReasonSessionLost, Grace},
		"scale set gone":     {actions.ErrScaleSetNotFound, v1alpha1.ReasonScaleSetNotFound, 0},
		"credential refused": {actions.ErrUnauthorized, v1alpha1.ReasonUnauthorized, 0},
		"credential useless": {actions.ErrInvalidCredentials, v1alpha1.ReasonCredentialsInvalid, 0},
		"no certificate":     {ErrUnusable, v1alpha1.ReasonInvalidConfiguration, 0},
		"an address of others": {
			&addresses.NotAllowedError{Field: "githubConfigUrl"}, v1alpha1.ReasonAddressNotAllowed, 0,
		},
		"a wrong key": {&config.InvalidError{Key: "min_runners"}, v1alpha1.ReasonInvalidConfiguration, 0},
		"a redirect": {
			&actions.Error{StatusCode: http.StatusTemporaryRedirect}, v1alpha1.ReasonRefusedByGitHub, Grace,
		},
		"rate limit": {&actions.RateLimitedError{Err: actions.ErrUnauthorized}, v1alpha1.ReasonRateLimited, 0},
		"message":    {&actions.MalformedMessageError{Err: errBroken}, ReasonMalformedMessage, Grace},
		"time is up": {&actions.TimeoutError{}, v1alpha1.ReasonTimeout, Grace},
		"maintenance": {
			&actions.Error{StatusCode: 503, RetryAt: noon.Add(time.Minute)}, v1alpha1.ReasonGitHubUnavailable, 0,
		},
		"short maintenance": {
			&actions.Error{StatusCode: 503, RetryAt: noon.Add(time.Second)}, v1alpha1.ReasonGitHubUnavailable, Grace,
		},
		"anything else": {errBroken, v1alpha1.ReasonGitHubUnavailable, Grace},
	} {
		t.Run(name, func(t *testing.T) {
			reason, err := Explain(fmt.Errorf("call: %w", test.err))
			if reason != test.reason {
				t.Fatalf("reason = %s, want %s", reason, test.reason)
			}
			if (reason == v1alpha1.ReasonTimeout || reason == v1alpha1.ReasonGitHubUnavailable) &&
				!strings.Contains(err.Error(), "check proxy") {
				t.Errorf("%q says nothing of what to look at", err)
			}
			var f *Failure
			f = f.Next(reason, err, noon)
			if test.after > 0 {
				f = f.Next(reason, err, noon.Add(test.after-1))
				if status := f.Status(); status != nil {
					t.Errorf("shown as %+v too early", status)
				}
			}
			f = f.Next(reason, err, noon.Add(test.after))
			if status := f.Status(); status == nil || !status.Since.Time.Equal(noon) {
				t.Errorf("status = %+v, want it since %s", status, noon)
			}
		})
	}
}

func TestFailuresNameTheNextStep(t *testing.T) {
	page := &actions.UnexpectedResponseError{Endpoint: actions.EndpointGetMessage, Err: actions.ErrForeignAnswer}
	for name, test := range map[string]struct {
		err          error
		reason, next string
	}{
		"a message without an id": {
			&actions.MalformedMessageError{Message: &actions.Message{}, Err: errBroken}, ReasonMalformedMessage,
			"check the proxy or gateway on the way",
		},
		"a web page": {page, v1alpha1.ReasonGitHubUnavailable, "check proxy"},
		"a refusal": {
			&actions.Error{Endpoint: actions.EndpointCreateSession, StatusCode: http.StatusUnprocessableEntity},
			v1alpha1.ReasonRefusedByGitHub, "give its IDs to GitHub's support",
		},
	} {
		reason, err := Explain(fmt.Errorf("call: %w", test.err))
		if reason != test.reason || !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.next) {
			t.Errorf("%s: %s %v, want %s and what to do: %s", name, reason, err, test.reason, test.next)
		}
	}
}
