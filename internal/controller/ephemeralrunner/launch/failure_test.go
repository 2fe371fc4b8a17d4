package launch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// notRegistered returns why a runner is not registered, if there is no client for GitHub because of the error, and if
// GitHub answers with it.
func notRegistered(t *testing.T, err error) (failures []*rules.Failure) {
	t.Helper()
	for _, answer := range []github{{noClient: err}, {refuse: err}} {
		controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
			memory := &launch.Memory{}
			newLauncher(created{}, &answer, workers).Launch(&v1alpha1.AutoscalingRunnerSet{}, newRunner(), 0, memory)
			synctest.Wait()
			progress, _ := memory.Launched()
			if progress.Failure == nil {
				t.Fatalf("the runner is launched in spite of %q", err)
			}
			failures = append(failures, progress.Failure)
		})
	}
	return failures
}

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
		for _, failure := range notRegistered(t, wrapped) {
			next, ok := strings.CutPrefix(failure.Message, wrapped.Error())
			if !ok || !strings.HasPrefix(next, test.next) || (test.next == "") != (next == "") {
				t.Errorf("%s: %q is added to the error's text, want %q", name, next, test.next)
			}
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
		for _, failure := range notRegistered(t, fmt.Errorf("register: %w", test.err)) {
			if failure.Reason != test.reason {
				t.Errorf("%s: reason %s, want %s", name, failure.Reason, test.reason)
			}
		}
	}
}

// A removal may have been the last attempt, so the message of its failure does not promise another.
func TestARemovalThatFailedPromisesNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.keep = errGitHubAway
		f.Deregister(newRunner(), 42, true, f.memory)
		synctest.Wait()
		got := f.memory.Removal().Failure
		if got == nil || strings.Contains(got.Message, "tried again") {
			t.Errorf("%v, want a failure that promises no other try", got)
		}
	})
}
