package listener

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/listener/metrics"
)

// scenario is a loop with a scripted GitHub and API server around it. It runs in a synctest bubble: time passes only
// when every goroutine waits.
type scenario struct {
	*loop
	t       *testing.T
	github  *scriptedGitHub
	cluster *scriptedCluster
	// file is the content of the configuration file.
	file    *config.Config
	changed chan struct{}
	stop    context.CancelFunc
	ended   chan struct{}
	begun   time.Time
	// log is the test's log, which keeps all lines in memory, unless a test replaces it.
	log logr.Logger
}

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
		t: t, begun: time.Now(), changed: make(chan struct{}), ended: make(chan struct{}), log: testr.New(t),
		github: &scriptedGitHub{begun: time.Now(), statistics: &actions.Statistics{}},
		cluster: &scriptedCluster{
			begun: time.Now(), set: RunnerSet{Publication: Publication{Desired: Desired{PatchID: 7}}},
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
	d := dependencies{
		clock: clock.RealClock{}, log: log, connect: s.github.connect, cluster: s.cluster, owner: "pod",
		health: &health{clock: clock.RealClock{}}, metrics: metrics.New(&settings, log),
		read: func() (*config.Config, error) {
			read := *guarded(&s.github.mu, &s.file)
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
	s.loop = newLoop(&settings, set, d)
	go func() {
		defer close(s.ended)
		s.loop.run(ctx, s.changed)
		s.loop.shutdown(context.WithoutCancel(ctx))
	}()
	synctest.Wait()
}

// guarded reads, under mu, what a test may have changed in the meantime.
func guarded[T any](mu *sync.Mutex, of *T) T {
	mu.Lock()
	defer mu.Unlock()
	return *of
}

// release makes what the test has changed so far visible to the fakes' next calls, as the memory model requires.
func (s *scenario) release() {
	guarded(&s.github.mu, &s.github.evicted)
	guarded(&s.cluster.mu, &s.cluster.set)
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

// at formats a time of the scenario for comparison with the fakes' records.
func at(d time.Duration) string { return d.String() }

func statistics(assigned int) *actions.Statistics {
	return &actions.Statistics{TotalAssignedJobs: assigned}
}

func job(id int64) actions.JobMessageBase {
	return actions.JobMessageBase{
		RunnerRequestID: id, JobID: "job-" + strconv.FormatInt(id, 10), OwnerName: "org", RepositoryName: "repo",
		JobDisplayName: "build", WorkflowRunID: 40 + id, JobWorkflowRef: "org/repo/.github/workflows/ci.yml@refs/heads/main",
	}
}

// message returns a message with entries: "offer 1", "assign 1", "start 1 runner", "complete 1 runner".
func message(id int64, assigned int, entries ...string) *actions.Message {
	built := &actions.Message{ID: id, Statistics: statistics(assigned), Entries: len(entries)}
	for _, entry := range entries {
		var kind, runner string
		var request int64
		_, _ = fmt.Sscan(entry, &kind, &request, &runner)
		switch kind {
		case "offer":
			built.JobsAvailable = append(built.JobsAvailable, actions.JobAvailable{JobMessageBase: job(request)})
		case "assign":
			built.JobsAssigned = append(built.JobsAssigned, actions.JobAssigned{JobMessageBase: job(request)})
		case "start":
			built.JobsStarted = append(built.JobsStarted, actions.JobStarted{JobMessageBase: job(request), RunnerName: runner})
		case "complete":
			completed := actions.JobCompleted{JobMessageBase: job(request), RunnerName: runner, Result: "succeeded"}
			built.JobsCompleted = append(built.JobsCompleted, completed)
		default:
			panic("unknown entry " + entry)
		}
	}
	return built
}

// scriptedCluster is an API server for one set. Hooks answer before the default does.
type scriptedCluster struct {
	mu    sync.Mutex
	begun time.Time
	set   RunnerSet
	// calls lists the calls with their times, such as "3s publish 2 #8".
	calls     []string
	published []Publication
	states    []v1alpha1.ListenerStatus
	jobs      map[string]v1alpha1.EphemeralRunnerStatus

	onPublish func() error
	onState   func() error
	onJob     func(runner string) error
}

func (c *scriptedCluster) note(format string, values ...any) {
	c.calls = append(c.calls, at(time.Since(c.begun))+" "+fmt.Sprintf(format, values...))
}

func (c *scriptedCluster) RunnerSet(context.Context) (*RunnerSet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := c.set
	return &read, nil
}

func (c *scriptedCluster) Publish(_ context.Context, publication Publication) (*RunnerSet, error) {
	if hook := guarded(&c.mu, &c.onPublish); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note("publish %d #%d", publication.Replicas, publication.PatchID-c.set.PatchID)
	c.published = append(c.published, publication)
	return &RunnerSet{Publication: publication, UID: c.set.UID, Capacity: c.set.Capacity, Listener: c.set.Listener}, nil
}

func (c *scriptedCluster) WriteStatus(_ context.Context, status v1alpha1.ListenerStatus) error {
	if hook := guarded(&c.mu, &c.onState); hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states = append(c.states, status)
	c.set.Listener = &status
	return nil
}

func (c *scriptedCluster) ReportJob(ctx context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	if hook := guarded(&c.mu, &c.onJob); hook != nil {
		if err := hook(runner); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.jobs == nil {
		c.jobs = map[string]v1alpha1.EphemeralRunnerStatus{}
	}
	c.jobs[runner] = status
	c.note("report %s %s", runner, status.JobResult)
	return nil
}

func (c *scriptedCluster) last() Publication {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.published) == 0 {
		return Publication{}
	}
	return c.published[len(c.published)-1]
}

func (c *scriptedCluster) publications() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.published)
}

func (c *scriptedCluster) state() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.states) == 0 {
		return ""
	}
	last := c.states[len(c.states)-1]
	return string(last.State) + "/" + last.Reason
}

func (c *scriptedCluster) job(runner string) v1alpha1.EphemeralRunnerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[runner]
}
