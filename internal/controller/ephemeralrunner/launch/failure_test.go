package launch

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/credentials"
)

var errGitHubAway = errors.New("GitHub is away")

// Whoever reads why a runner waits also reads what happens next.
func TestARunnerThatIsNotRegisteredNamesTheNextStep(t *testing.T) {
	const (
		check = "; it is tried again; check proxy, githubServerTLS and githubConfigUrl, and that the cluster's " +
			"network lets the manager and the listener reach GitHub"
		correct = "; it is tried again; correct what GitHub names"
	)
	for name, test := range map[string]struct {
		err  error
		next string
	}{
		"no scale set":    {actions.ErrScaleSetNotFound, "; wait: the manager recreates the scale set"},
		"a web page":      {&actions.UnexpectedResponseError{Err: actions.ErrForeignAnswer}, check},
		"no JIT config":   {&actions.UnexpectedResponseError{Err: errGitHubAway}, check},
		"nobody":          {&actions.NetworkError{Err: errGitHubAway}, check},
		"5xx":             {&actions.Error{StatusCode: http.StatusBadGateway}, check},
		"4xx":             {&actions.Error{StatusCode: http.StatusBadRequest}, correct},
		"a proxy's 408":   {&actions.Error{StatusCode: http.StatusRequestTimeout}, check},
		"a redirect":      {&actions.Error{StatusCode: http.StatusFound}, correct},
		"never asked":     {errGitHubAway, "; it is tried again"},
		"has its own":     {&credentials.MissingError{Kind: "Secret", Name: "github"}, ""},
		"says until when": {&actions.RateLimitedError{Err: &actions.Error{StatusCode: http.StatusTooManyRequests}}, ""},
	} {
		wrapped := fmt.Errorf("register: %w", test.err)
		next, is := strings.CutPrefix(notRegistered(wrapped).Message, wrapped.Error())
		if !is || !strings.HasPrefix(next, test.next) || (test.next == "") != (next == "") {
			t.Errorf("%s: %q is added to the error's text, want %q", name, next, test.next)
		}
	}
}

// A cause has the same reason here as in the conditions of the set, but for what only the set can tell: that GitHub is
// away.
func TestTheReasonOfARunnerThatIsNotRegistered(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"a bad Secret":         {&credentials.InvalidError{Kind: "Secret", Name: "github", Reason: "no key"}, v1alpha1.ReasonCredentialsInvalid},
		"no Secret":            {&credentials.MissingError{Kind: "Secret", Name: "github"}, v1alpha1.ReasonCredentialsMissing},
		"no right to read it":  {apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "github", errGitHubAway), v1alpha1.ReasonCredentialsMissing},
		"another vault":        {&credentials.UnsupportedError{Feature: "a vault"}, v1alpha1.ReasonVaultUnsupported},
		"a vault of others":    {&credentials.VaultNotAllowedError{Field: "vaultConfig"}, v1alpha1.ReasonVaultNotAllowed},
		"an address of others": {&addresses.NotAllowedError{Field: "githubConfigUrl"}, v1alpha1.ReasonAddressNotAllowed},
		"a refusal":            {actions.ErrUnauthorized, v1alpha1.ReasonUnauthorized},
		"a limit":              {&actions.RateLimitedError{Err: actions.ErrUnauthorized}, v1alpha1.ReasonRateLimited},
		"no scale set":         {actions.ErrScaleSetNotFound, v1alpha1.ReasonScaleSetNotFound},
		"a bad request":        {&actions.Error{StatusCode: http.StatusBadRequest}, v1alpha1.ReasonRegistrationFailed},
		"an error of GitHub":   {&actions.Error{StatusCode: http.StatusBadGateway}, v1alpha1.ReasonRegistrationFailed},
		"anything else":        {errGitHubAway, v1alpha1.ReasonRegistrationFailed},
	} {
		if got := notRegistered(fmt.Errorf("register: %w", test.err)).Reason; got != test.reason {
			t.Errorf("%s: reason %s, want %s", name, got, test.reason)
		}
	}
}

// A removal may have been the last attempt, so the message of its failure does not promise another.
func TestARemovalThatFailedPromisesNothing(t *testing.T) {
	if got := notRemoved(errGitHubAway).Error(); strings.Contains(got, "tried again") {
		t.Errorf("%q promises another try", got)
	}
}
