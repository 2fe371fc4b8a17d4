package fakegithub_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

type exit struct {
	code int
	err  error
}

// runInBackground starts a simulated runner.
func runInBackground(ctx context.Context, j jit, opts fakegithub.RunnerOptions) <-chan exit {
	done := make(chan exit, 1)
	go func() {
		code, err := fakegithub.RunRunner(ctx, j.EncodedJITConfig, opts)
		done <- exit{code, err}
	}()
	return done
}

// untilRunner waits until the service sees the runner as wanted.
func (c *client) untilRunner(name string, online, busy bool) {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		for _, r := range c.server.Snapshot().Runners {
			if r.Name == name && r.Online == online && r.Busy == busy {
				return
			}
		}
		c.want(200, c.call("GET", setsPath, nil), nil)
	}
	c.t.Fatalf("runner %s never was online=%v busy=%v", name, online, busy)
}

func TestRunnerRunsOneJob(t *testing.T) {
	// A job ends late where its runner is between two requests then; this clock stands still meanwhile.
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c := newClient(t, fakegithub.Options{Clock: clock, PollLength: time.Hour})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	const duration = 30 * time.Second
	id := c.queue(fakegithub.JobRequest{ScaleSet: "linux", Duration: fakegithub.Duration(duration), Result: "failed"})[0]
	m := s.next(0, 1)
	j := c.generate(set.ID, "runner-1")
	done := runInBackground(context.Background(), j, fakegithub.RunnerOptions{})
	m = s.next(m.MessageID, 1)
	started := m.jobs[0]
	clock.Step(duration)
	if got := <-done; got.code != fakegithub.ExitDone || got.err != nil {
		t.Fatalf("exit %+v", got)
	}
	completed := s.next(m.MessageID, 1).jobs[0]
	if started.MessageType != "JobStarted" || started.RunnerName != "runner-1" || started.RunnerID != j.Runner.ID {
		t.Errorf("started %+v", started)
	}
	if completed.MessageType != "JobCompleted" || completed.Result != "failed" || completed.RunnerRequestID != id {
		t.Errorf("completed %+v", completed)
	}
	job := c.server.Jobs("completed")[0]
	if job.Runner != "runner-1" || job.CompletedAt.Sub(job.StartedAt) != duration || job.RunnerOnlineAt.IsZero() {
		t.Errorf("job %+v", job)
	}
	if left := len(c.server.Snapshot().Runners); left != 0 {
		t.Errorf("%d runner records are left", left)
	}
	c.noAnomalies()
}

func TestJITConfigServesOneProcess(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	j := c.generate(c.createSet("linux").ID, "runner-1")
	ctx, stop := context.WithCancel(context.Background())
	first := runInBackground(ctx, j, fakegithub.RunnerOptions{})
	c.untilRunner("runner-1", true, false)
	second := <-runInBackground(context.Background(), j, fakegithub.RunnerOptions{})
	if second.code != fakegithub.ExitDone || !errors.Is(second.err, fakegithub.ErrRunnerRefused) {
		t.Errorf("second process: %+v", second)
	}
	stop()
	if got := <-first; got.code != fakegithub.ExitDone || !errors.Is(got.err, fakegithub.ErrRunnerTerminated) {
		t.Errorf("first process: %+v", got)
	}
	if a := c.server.Anomalies(); len(a) != 1 || a[0].Kind != "JITConfigReused" {
		t.Errorf("anomalies %v", a)
	}
}

func TestRunnerRemoval(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	const agents = "_apis/distributedtask/pools/0/agents/"
	idle, busy := c.generate(set.ID, "idle"), c.generate(set.ID, "busy")
	ids := c.queue(fakegithub.JobRequest{ScaleSet: "linux", Duration: fakegithub.Duration(time.Hour)})
	s.next(0, 1)
	busyDone := runInBackground(context.Background(), busy, fakegithub.RunnerOptions{})
	c.untilRunner("busy", true, true)
	idleDone := runInBackground(context.Background(), idle, fakegithub.RunnerOptions{})
	c.untilRunner("idle", true, false)

	c.wantException(400, "JobStillRunningException", c.call("DELETE", agents+"2", nil))
	c.want(204, c.call("DELETE", agents+"1", nil), nil)
	c.want(204, c.call("DELETE", agents+"1", nil), nil)
	c.wantException(404, "TaskAgentNotFoundException", c.call("GET", agents+"1", nil))
	if got := <-idleDone; got.code != fakegithub.ExitDone || !errors.Is(got.err, fakegithub.ErrRunnerRefused) {
		t.Errorf("removed runner: %+v", got)
	}
	if err := c.server.CancelJob(ids[0]); err != nil {
		t.Fatal(err)
	}
	if got := <-busyDone; got.err != nil {
		t.Errorf("runner of the canceled job: %+v", got)
	}
	if job := c.server.Jobs("")[0]; job.Result != "canceled" {
		t.Errorf("job %+v", job)
	}
	c.noAnomalies()
}

func TestRunnerNames(t *testing.T) {
	c := newClient(t, fakegithub.Options{Rules: fakegithub.Rules{RemoveUnknown404: true}})
	set := c.createSet("linux")
	j := c.generate(set.ID, "runner-1")
	path := setsPath + "/1/generatejitconfig"
	c.wantException(409, "TaskAgentExistsException", c.call("POST", path, map[string]string{"name": "RUNNER-1"}))
	c.want(400, c.call("POST", path, map[string]string{"name": strings.Repeat("x", 65)}), nil)
	c.want(400, c.call("POST", path, map[string]string{}), nil)
	var found struct {
		Count int
		Value []struct {
			ID               int
			RunnerScaleSetID int
		}
	}
	c.want(200, c.call("GET", "_apis/distributedtask/pools/0/agents?agentName=runner-1", nil), &found)
	if found.Count != 1 || found.Value[0].ID != j.Runner.ID || found.Value[0].RunnerScaleSetID != set.ID {
		t.Errorf("found %+v", found)
	}
	c.want(200, c.call("GET", "_apis/distributedtask/pools/0/agents?agentName=other", nil), &found)
	if found.Count != 0 {
		t.Errorf("found %+v", found)
	}
	c.wantException(404, "TaskAgentNotFoundException", c.call("DELETE", "_apis/distributedtask/pools/0/agents/99", nil))
}

func TestBusyRunnerEndsEarly(t *testing.T) {
	tests := map[string]struct {
		kill   bool
		end    bool // the context
		code   int
		err    error
		result string
		kind   fakegithub.AnomalyKind
	}{
		"terminated":        {false, true, fakegithub.ExitDone, fakegithub.ErrRunnerTerminated, "canceled", "RunnerStoppedBusy"},
		"killed":            {true, false, fakegithub.ExitKilled, fakegithub.ErrRunnerKilled, "failed", "RunnerLostBusy"},
		"killed, and ended": {true, true, fakegithub.ExitKilled, fakegithub.ErrRunnerKilled, "failed", "RunnerLostBusy"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			// By a clock that stands still: pauses between requests must not look like a loss.
			clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			c := newClient(t, fakegithub.Options{
				Rules: fakegithub.Rules{RunnerLostAfter: time.Millisecond}, PollLength: time.Minute, Clock: clock,
			})
			set := c.createSet("linux")
			s := c.openSession(set.ID)
			c.queue(fakegithub.JobRequest{ScaleSet: "linux", Duration: fakegithub.Duration(time.Hour)})
			last := s.next(0, 1).MessageID
			ctx, terminate := context.WithCancel(context.Background())
			defer terminate()
			kill := make(chan struct{})
			done := runInBackground(ctx, c.generate(set.ID, "runner-1"), fakegithub.RunnerOptions{Kill: kill})
			c.untilRunner("runner-1", true, true)
			last = s.next(last, 1).MessageID
			if tt.kill {
				close(kill)
			}
			if tt.end {
				terminate()
			}
			if got := <-done; got.code != tt.code || !errors.Is(got.err, tt.err) {
				t.Errorf("exit %+v", got)
			}
			// The service sees a moment later that a connection has ended, and only from then on the runner is out of
			// touch.
			for len(c.server.Jobs("completed")) == 0 {
				clock.Step(time.Millisecond)
				c.want(200, c.call("GET", setsPath, nil), nil)
			}
			if m := s.next(last, 1); m.types() != "JobCompleted" || m.jobs[0].Result != tt.result {
				t.Errorf("got %s %+v", m.types(), m.jobs)
			}
			if a := c.server.Anomalies(); len(a) != 1 || a[0].Kind != tt.kind {
				t.Errorf("anomalies %v", a)
			}
		})
	}
}

func TestDeprecatedVersion(t *testing.T) {
	day := clocktesting.NewFakeClock(time.Date(2026, time.November, 28, 0, 0, 0, 0, time.UTC))
	c := newClient(t, fakegithub.Options{Clock: day})
	set := c.createSet("linux")
	c.server.EnforceRunnerVersions(true)
	for name, tt := range map[string]struct {
		opts fakegithub.RunnerOptions
		code int
	}{
		"asked to tell":             {fakegithub.RunnerOptions{Version: "2.333.0", ReturnVersionDeprecated: true}, fakegithub.ExitOutdated},
		"not asked":                 {fakegithub.RunnerOptions{Version: "2.333.0"}, fakegithub.ExitDone},
		"asked before it knew":      {fakegithub.RunnerOptions{Version: "2.332.0", ReturnVersionDeprecated: true}, fakegithub.ExitDone},
		"too old to register":       {fakegithub.RunnerOptions{Version: "2.328.0", ReturnVersionDeprecated: true}, fakegithub.ExitDone},
		"Windows":                   {fakegithub.RunnerOptions{Version: "2.335.1", ReturnVersionDeprecated: true, Windows: true}, fakegithub.ExitOutdated},
		"Windows, before it knew":   {fakegithub.RunnerOptions{Version: "2.331.0", ReturnVersionDeprecated: true, Windows: true}, fakegithub.ExitDone},
		"Windows, and nobody asked": {fakegithub.RunnerOptions{Version: "2.335.1", Windows: true}, fakegithub.ExitDone},
	} {
		registered := c.generate(set.ID, name)
		got := <-runInBackground(context.Background(), registered, tt.opts)
		if got.code != tt.code || !errors.Is(got.err, fakegithub.ErrRunnerOutdated) {
			t.Errorf("%s: %+v", name, got)
		}
		var record struct{ Version string }
		c.want(200, c.call("GET", "_apis/distributedtask/pools/0/agents/"+strconv.Itoa(registered.Runner.ID), nil), &record)
		if record.Version != tt.opts.Version {
			t.Errorf("%s: the record has version %q", name, record.Version)
		}
	}
	c.noAnomalies()
}

// A service that keeps no versions in its records answers without one.
func TestHiddenVersions(t *testing.T) {
	c := newClient(t, fakegithub.Options{Rules: fakegithub.Rules{HideVersions: true}})
	set := c.createSet("linux")
	c.server.DeprecateRunnerVersion("*", true)
	registered := c.generate(set.ID, "runner-1")
	got := <-runInBackground(context.Background(), registered,
		fakegithub.RunnerOptions{Version: "2.336.0", ReturnVersionDeprecated: true})
	if got.code != fakegithub.ExitOutdated {
		t.Errorf("%+v", got)
	}
	var record map[string]any
	c.want(200, c.call("GET", "_apis/distributedtask/pools/0/agents/"+strconv.Itoa(registered.Runner.ID), nil), &record)
	if version := record["version"]; version != nil && version != "" {
		t.Errorf("the record has version %q", version)
	}
}

func TestUnreadableJITConfig(t *testing.T) {
	for _, config := range []string{"", "!", "e30=", "bnVsbA=="} {
		if code, err := fakegithub.RunRunner(context.Background(), config, fakegithub.RunnerOptions{}); code == 0 ||
			!errors.Is(err, fakegithub.ErrBadJITConfig) {
			t.Errorf("%q: code %d, error %v", config, code, err)
		}
	}
}

// A runner rides out a service that is away for a while.
func TestRunnerPersists(t *testing.T) {
	c := newClient(t, fakegithub.Options{})
	set := c.createSet("linux")
	s := c.openSession(set.ID)
	for _, f := range []fakegithub.Fault{
		{Endpoint: "simulated-runner/connect", Drop: fakegithub.DropAfter, Count: 1},
		{Endpoint: "simulated-runner/wait", Status: 503, Count: 1},
	} {
		if _, err := c.server.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}
	c.queue(fakegithub.JobRequest{ScaleSet: "linux"})
	s.next(0, 1)
	if got := <-runInBackground(context.Background(), c.generate(set.ID, "runner-1"),
		fakegithub.RunnerOptions{}); got.err != nil {
		t.Errorf("exit %+v", got)
	}
	c.noAnomalies()
}

// A registration may get lost under its runner, and statistics may count jobs that don't exist. Nobody is told of
// either.
func TestGitHubIsWrong(t *testing.T) {
	c := newClient(t, fakegithub.Options{PollLength: time.Millisecond})
	set := c.createSet("linux")
	kill := make(chan struct{})
	done := runInBackground(context.Background(), c.generate(set.ID, "runner-1"), fakegithub.RunnerOptions{Kill: kill})
	c.untilRunner("runner-1", true, false)
	if err := c.server.ForgetRunner(1); err != nil {
		t.Fatal(err)
	}
	if err := c.server.CountPhantoms(set.ID, 3); err != nil {
		t.Fatal(err)
	}
	c.queue(fakegithub.JobRequest{ScaleSet: "linux"})
	s := c.openSession(set.ID)
	c.want(200, s.poll(0, 5), nil)
	snapshot := c.server.Snapshot()
	if counted := snapshot.ScaleSets[0].Statistics; len(snapshot.Runners) != 0 || counted.Registered != 0 ||
		counted.Assigned < 3 {
		t.Errorf("runners %v, statistics %+v", snapshot.Runners, counted)
	}
	select {
	case got := <-done:
		t.Errorf("the runner learned of it: %+v", got)
	default:
	}
	close(kill)
	<-done
	if err := c.server.CountPhantoms(set.ID, 0); err != nil || c.server.Snapshot().ScaleSets[0].Statistics.Assigned > 1 {
		t.Errorf("%v, statistics %+v", err, c.server.Snapshot().ScaleSets[0].Statistics)
	}
}

// A runner's own steps: the job ends after the last step only, has the output of the steps, fails if a step fails, and
// asks the running step to end if it is canceled.
func TestRunnerHasStepsOfItsOwn(t *testing.T) {
	for want, cancels := range map[string]bool{"failed": false, "canceled": true} {
		t.Run(want, func(t *testing.T) {
			c := newClient(t, fakegithub.Options{})
			set := c.createSet("linux")
			s := c.openSession(set.ID)
			id := c.queue(fakegithub.JobRequest{ScaleSet: "linux"})[0]
			m := s.next(0, 1)
			atEnd, goOn := make(chan map[string]string), make(chan struct{})
			done := runInBackground(t.Context(), c.generate(set.ID, "runner-1"), fakegithub.RunnerOptions{
				Started: func(context.Context, map[string]string) fakegithub.Step {
					return fakegithub.Step{Name: "first", Log: "a"}
				},
				Completed: func(ctx context.Context, environment map[string]string) fakegithub.Step {
					atEnd <- environment
					select {
					case <-ctx.Done():
					case <-goOn:
					}
					return fakegithub.Step{Name: "last", Log: "b", Summary: "c", Failed: true}
				},
			})
			m = s.next(m.MessageID, 1)
			told := <-atEnd
			if got := []string{told["GITHUB_RUN_ATTEMPT"], told["GITHUB_TRIGGERING_ACTOR"],
				told["RUNNER_DEBUG"]}; !slices.Equal(got, []string{"1", "octocat", ""}) {
				t.Errorf("attempt, actor and debug logging are %q", got)
			}
			if jobs := c.server.Jobs("running"); len(jobs) != 1 || len(jobs[0].Steps) != 1 || jobs[0].Steps[0].Log != "a" {
				t.Errorf("while the last step is at work: %+v", jobs)
			}
			if !cancels {
				close(goOn)
			} else if err := c.server.CancelJob(id); err != nil {
				t.Fatal(err)
			}
			if got := <-done; got.code != fakegithub.ExitDone || got.err != nil {
				t.Fatalf("exit %+v", got)
			}
			s.next(m.MessageID, 1)
			if job := c.server.Jobs("completed")[0]; job.Result != want || len(job.Steps) != 2 || job.Steps[1].Summary != "c" {
				t.Errorf("job %+v", job)
			}
			c.noAnomalies()
		})
	}
}
