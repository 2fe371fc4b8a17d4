package listener_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/listener"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// The file names another address for metrics, which the environment overrides.
func TestDefaultsComeFromTheEnvironment(t *testing.T) {
	e := newEnvironment(t, fakegithub.Options{})
	t.Setenv(config.PathVariable, e.file)
	t.Setenv(config.MetricsAddressVariable, "127.0.0.1:0")
	e.start(func(o *listener.Options) { o.ConfigPath, o.HealthAddress, o.MetricsAddress, o.Owner = "", "", "", "" })
	host, err := os.Hostname()
	check(t, err)
	if got := e.github.Snapshot().Sessions[0].Owner; got != host {
		t.Errorf("the session is %q's, want %q's", got, host)
	}
	e.until(func(g Gomega) {
		// It listens there, or says that it can't because another process does.
		g.Expect(e.log.String()).To(MatchRegexp(`"server": "health", "address": "[^"]*:8081"`))
		g.Expect(e.log.String()).To(ContainSubstring(`"server": "metrics", "address": "127.0.0.1:`))
	})
}

// Servers say at the level debug where they listen.
func TestTheLogLevelCanChange(t *testing.T) {
	e := newEnvironment(t, fakegithub.Options{})
	e.write(func(c *config.Config) {
		c.LogFormat, c.LogLevel, c.MetricsAddr = "json", "error", config.MetricsDisabled
	})
	e.start()
	e.until(func(g Gomega) { g.Expect(e.cluster.state()).To(Equal("Listening")) })
	if got := e.log.String(); strings.Contains(got, "Session opened") || strings.Contains(got, "Server listens") {
		t.Errorf("at the level error: %s", got)
	}
	e.write(func(c *config.Config) { c.LogLevel, c.MetricsAddr = "debug", ":1" })
	e.until(func(g Gomega) {
		g.Expect(e.log.String()).To(MatchRegexp(`"severity":"debug".*"message":"Server listens".*"server":"metrics"`))
	})
	e.write(func(c *config.Config) {
		c.LogLevel, c.MetricsAddr, c.MinRunners = "nonsense", config.MetricsDisabled, 1
	})
	e.until(func(g Gomega) { g.Expect(e.log.String()).To(ContainSubstring(`"replicas":1`)) })
	e.write(func(c *config.Config) { c.MetricsAddr, c.MinRunners = ":1", 2 })
	e.until(func(g Gomega) { g.Expect(e.log.String()).To(ContainSubstring(`"replicas":2`)) }) // at the level info
	if got := strings.Count(e.log.String(), "Server listens"); got != 1 {
		t.Errorf("said %d times where the server listens, want once, at the level debug", got)
	}
}

// skippingClock lets each wait pass immediately.
type skippingClock struct {
	clock.RealClock
	now time.Time
}

func (c *skippingClock) Now() time.Time { return c.now }

func (c *skippingClock) After(d time.Duration) <-chan time.Time {
	c.now = c.now.Add(d)
	passed := make(chan time.Time, 1)
	passed <- c.now
	return passed
}

// absentSet is an API server that no longer has the set.
type absentSet struct {
	cluster.Cluster
	asked func()
}

func (a absentSet) RunnerSet(context.Context) (*cluster.RunnerSet, error) {
	a.asked()
	return nil, errAway
}

// A process that was started for a set that is gone does not wait for it forever: it ends after the pause, of 15 s at
// most, in which the file has changed.
func TestAnotherPlaceNeedsANewProcessBeforeTheSetIsRead(t *testing.T) {
	e := newEnvironment(t, fakegithub.Options{})
	clk := &skippingClock{now: time.Now()}
	begun, changed := clk.now, time.Time{}
	err := listener.Run(t.Context(), listener.Options{
		ConfigPath: e.file, LogTo: io.Discard, Clock: clk,
		HealthAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0",
		Cluster: absentSet{asked: func() {
			if clk.now.Sub(begun) >= time.Minute && changed.IsZero() {
				e.write(func(c *config.Config) { c.EphemeralRunnerSetName = "other" })
				changed = clk.now
			}
		}},
	})
	check(t, err)
	if took := clk.now.Sub(changed); changed.IsZero() || took <= 0 || took > 15*time.Second {
		t.Errorf("ended %s after the file has changed, want it soon", took)
	}
}

// If a listener is started by hand with a wrong file, the error names the file and the next step.
func TestAConfigurationThatIsNoneNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wrong.yaml")
	run := func() error { return listener.Run(t.Context(), listener.Options{ConfigPath: path}) }
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
