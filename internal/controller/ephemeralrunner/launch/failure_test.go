package launch

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

var errGitHubAway = errors.New("GitHub is away")

// Whoever reads why a runner waits also reads what happens next.
func TestARunnerThatIsNotRegisteredNamesTheNextStep(t *testing.T) {
	const check = "; it is retried; if it keeps failing, check proxy and githubConfigUrl of the AutoscalingRunnerSet"
	for name, test := range map[string]struct {
		err  error
		next string
	}{
		"no scale set":    {actions.ErrScaleSetNotFound, "; the manager recreates the scale set: see the AutoscalingRunnerSet"},
		"a web page":      {&actions.UnexpectedResponseError{Err: actions.ErrForeignAnswer}, check},
		"no JIT config":   {&actions.UnexpectedResponseError{Err: errGitHubAway}, check},
		"nobody":          {&actions.NetworkError{Err: errGitHubAway}, check},
		"5xx":             {&actions.Error{StatusCode: http.StatusBadGateway}, check},
		"4xx":             {&actions.Error{StatusCode: http.StatusBadRequest}, "; it is retried; correct what GitHub names"},
		"a proxy's 408":   {&actions.Error{StatusCode: http.StatusRequestTimeout}, check},
		"a redirect":      {&actions.Error{StatusCode: http.StatusFound}, check},
		"never asked":     {errGitHubAway, "; it is retried"},
		"has its own":     {&credentials.MissingError{Kind: "Secret", Name: "github"}, "AutoscalingRunnerSet"},
		"says until when": {&actions.RateLimitedError{Err: &actions.Error{StatusCode: http.StatusTooManyRequests}}, ""},
	} {
		wrapped := fmt.Errorf("register: %w", test.err)
		if got := notRegistered(wrapped).Message; !strings.HasPrefix(got, wrapped.Error()) || !strings.HasSuffix(got, test.next) {
			t.Errorf("%s: %q does not end in %q", name, got, test.next)
		}
	}
}

// A removal may have been the last attempt, so the message of its failure does not promise another.
func TestARemovalThatFailedPromisesNothing(t *testing.T) {
	if got := notRemoved(errGitHubAway).Error(); strings.Contains(got, "tried again") {
		t.Errorf("%q promises another try", got)
	}
}
