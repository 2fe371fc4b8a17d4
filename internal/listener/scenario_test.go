package listener

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
	"github.com/harrier-ci/harrier/internal/listener/serving"
)

// The tests of scenarios are inside of the package because Run keeps time in a bubble from passing: it waits for files
// and connections. This file alone uses what is private.

// What the rooms' tests use too.
var message, statistics, job = listenertest.Message, listenertest.Statistics, listenertest.Job

// scenario is a loop with a scripted GitHub and API server around it. It runs in a synctest bubble: time passes only
// when every goroutine waits.
type scenario struct {
	t       *testing.T
	github  *scriptedGitHub
	cluster *listenertest.Cluster
	// file is the content of the configuration file.
	file    *config.Config
	changed chan struct{}
	// health and metrics have the answers of the listener's servers.
	health  *serving.Health
	metrics *metrics.Metrics
	stop    context.CancelFunc
	ended   chan struct{}
	// log is the test's log, which keeps all lines in memory, unless a test replaces it.
	log logr.Logger
}

// Pauses between attempts that fail grow to longestPause.
const longestPause = 15 * time.Second

// inBubble runs a test in a bubble and stops the loop at its end.
func inBubble(t *testing.T, test func(s *scenario)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(t)
		defer func() {
			if s.stop != nil {
				s.stop()
				<-s.ended
			}
		}()
		test(s)
	})
}

func newScenario(t *testing.T) *scenario {
	return &scenario{
		t: t, changed: make(chan struct{}), ended: make(chan struct{}), log: testr.New(t),
		github: &scriptedGitHub{begun: time.Now(), statistics: &actions.Statistics{}},
		cluster: &listenertest.Cluster{
			Begun: time.Now(),
			Set:   cluster.RunnerSet{Publication: cluster.Publication{Desired: cluster.Desired{PatchID: 7}}},
		},
		file: &config.Config{
			ConfigureURL: "https://github.example/org", RunnerScaleSetID: 1, MaxRunners: 10,
			EphemeralRunnerSetNamespace: "runners", EphemeralRunnerSetName: "set",
			Credentials: &config.Credentials{Token: "first"},
		},
	}
}

// start begins to listen and returns when everything waits.
func (s *scenario) start() {
	settings, log := *s.file, s.log
	s.health, s.metrics = serving.NewHealth(clock.RealClock{}), metrics.New(&settings, log)
	d := dependencies{
		clock: clock.RealClock{}, log: log, connect: s.github.connect, cluster: s.cluster, owner: "pod",
		health: s.health, metrics: s.metrics,
		read: func() (*config.Config, error) {
			read := *listenertest.Guarded(&s.github.mu, &s.file)
			return &read, read.Validate()
		},
		apply: func(*config.Config) {},
	}
	ctx, stop := context.WithCancel(s.t.Context())
	s.stop = stop
	set, err := s.cluster.RunnerSet(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	l := newLoop(&settings, set, d)
	go func() {
		defer close(s.ended)
		l.run(ctx, s.changed)
		l.shutdown(context.WithoutCancel(ctx))
	}()
	synctest.Wait()
}

// release makes what the test has changed so far visible to the fakes' next calls, as the memory model requires.
func (s *scenario) release() {
	listenertest.Guarded(&s.github.mu, &s.github.evicted)
	listenertest.Guarded(&s.cluster.Mu, &s.cluster.Set)
}

// pass lets time go by.
func (s *scenario) pass(d time.Duration) {
	s.release()
	<-time.After(d) // in a bubble this only advances the clock
	synctest.Wait()
}

// send puts messages into the queue and returns when everything waits.
func (s *scenario) send(messages ...*actions.Message) {
	s.release()
	s.github.enqueue(messages...)
	synctest.Wait()
}

// reload changes the file and signals the change.
func (s *scenario) reload(change func(*config.Config)) {
	next := *s.file
	change(&next)
	s.file = &next
	s.release()
	s.changed <- struct{}{}
	synctest.Wait()
}

// stopped stops the listener and returns the time that it took, which is none if nothing is in hand.
func (s *scenario) stopped() time.Duration {
	begun := time.Now()
	s.stop()
	<-s.ended
	return time.Since(begun)
}

// at formats a time of the scenario for comparison with the fakes' records.
func at(d time.Duration) string { return d.String() }
