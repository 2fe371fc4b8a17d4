package listener

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// A web page in place of a message is not a message to delete, and not a sign that the session is gone.
func TestAWebPageKeepsTheSession(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.github.onPoll = func() error {
			return &actions.UnexpectedResponseError{Endpoint: actions.EndpointGetMessage, Err: actions.ErrForeignAnswer}
		}
		s.start()
		s.pass(time.Minute)
		if got := s.cluster.State(); got != "Retrying/GitHubUnavailable" {
			t.Errorf("state = %s", got)
		}
		if s.github.noted("delete 0") != 0 || s.session.current == nil {
			t.Errorf("calls of GitHub: %v, want the session kept and nothing deleted", s.github.calls)
		}
	})
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
