package listener

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

func TestFailuresNameTheNextStep(t *testing.T) {
	page := &actions.UnexpectedResponseError{Endpoint: actions.EndpointGetMessage, Err: actions.ErrForeignAnswer}
	for name, test := range map[string]struct {
		err          error
		reason, next string
	}{
		"a message without an id": {
			&actions.MalformedMessageError{Message: &actions.Message{}, Err: errBroken}, reasonMalformedMessage,
			"check the proxy or gateway on the way",
		},
		"a web page": {page, v1alpha1.ReasonGitHubUnavailable, "check proxy"},
		"a refusal": {
			&actions.Error{Endpoint: actions.EndpointCreateSession, StatusCode: http.StatusUnprocessableEntity},
			v1alpha1.ReasonRefusedByGitHub, "give its IDs to GitHub's support",
		},
	} {
		reason, err := explain(fmt.Errorf("call: %w", test.err))
		if reason != test.reason || !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.next) {
			t.Errorf("%s: %s %v, want %s and what to do: %s", name, reason, err, test.reason, test.next)
		}
	}
}

// A web page in place of a message is not a message to delete, and not a sign that the session is gone.
func TestAWebPageKeepsTheSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onPoll = func() error {
			return &actions.UnexpectedResponseError{Endpoint: actions.EndpointGetMessage, Err: actions.ErrForeignAnswer}
		}
		s.start()
		s.pass(time.Minute)
		if got := s.cluster.state(); got != "Retrying/GitHubUnavailable" {
			t.Errorf("state = %s", got)
		}
		if s.github.noted("delete 0") != 0 || s.session.current == nil {
			t.Errorf("calls of GitHub: %v, want the session kept and nothing deleted", s.github.calls)
		}
	})
}

// GitHub's name of a runner may not be a valid name in Kubernetes: no request is ever sent for it.
func TestAReportThatNoRequestCanCarryIsDroppedAtOnce(t *testing.T) {
	for _, name := range []string{"../../x", "..", "a%2fb"} {
		cluster, seen := onServer(t, http.StatusOK, `{}`)
		synctest.Test(t, func(t *testing.T) {
			var lines, reasons []string
			log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			r := newReporter(cluster, clock.RealClock{}, log, func(reason string) { reasons = append(reasons, reason) })
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), reportTimeout)
			defer cancel()
			if !r.deliver(ctx, reportsAbout("", name))() {
				t.Error("the message is not to be deleted")
			}
			if took := time.Since(begun); took != 0 || len(reasons) != 1 || len(lines) != 1 {
				t.Errorf("%q: after %s dropped for %v with the log %v, want it at once and one line", name, took, reasons, lines)
			}
		})
		if err := cluster.ReportJob(t.Context(), name, v1alpha1.EphemeralRunnerStatus{}); !apierrors.IsBadRequest(err) || *seen != (wire{}) {
			t.Errorf("%q: got %v and request %v, want BadRequest and none", name, err, seen)
		}
	}
}

// If a listener is started by hand with a wrong file, the error says which file it is and what to do.
func TestAConfigurationThatIsNoneNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.yaml")
	run := func() error { return Run(t.Context(), Options{ConfigPath: path}) }
	for name, write := range map[string]func() error{
		"absent":  func() error { return os.RemoveAll(path) },
		"no JSON": func() error { return os.WriteFile(path, []byte("github_token: hush"), 0o600) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		err := run()
		for _, part := range []string{path, config.PathVariable, "the manager's log"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", name, err, part)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v tells a secret", name, err)
		}
	}
	if err := os.WriteFile(path, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an invalid configuration: %v does not name %s", err, path)
	}
}
