package state_test

import (
	"errors"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a State with one scale set and one session.
type bench struct {
	*state.State
	t       *testing.T
	set     *state.ScaleSet
	session *state.Session
	last    int64
}

func newBench(t *testing.T, cfg state.Config) *bench {
	t.Helper()
	s := state.New(cfg)
	set, err := s.CreateScaleSet(start, s.Scope("orgs", "acme", ""), state.ScaleSetSpec{Name: "linux"})
	if err != nil {
		t.Fatal(err)
	}
	session, err := s.CreateSession(start, set.Scope, set.ID, "me")
	if err != nil {
		t.Fatal(err)
	}
	return &bench{State: s, t: t, set: set, session: session}
}

// at advances to a time after the start.
func (b *bench) at(after time.Duration) time.Time {
	now := start.Add(after)
	b.Advance(now)
	return now
}

// events polls a single time and returns the events of the next message.
func (b *bench) events(after time.Duration) []state.JobMessage {
	b.t.Helper()
	now := b.at(after)
	poll, err := b.StartPoll(now, b.session.ID, b.session.Token, b.last, 10)
	if err != nil {
		b.t.Fatal(err)
	}
	defer b.EndPoll(now, poll)
	m, err := b.Collect(poll)
	if err != nil {
		b.t.Fatal(err)
	}
	if m == nil {
		return nil
	}
	b.last = m.ID
	return m.Entries
}

func (b *bench) runner(after time.Duration, name string) *state.Runner {
	b.t.Helper()
	now := b.at(after)
	r, err := b.RegisterRunner(now, b.set.Scope, b.set.ID, name, "")
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.Connect(now, r.ID, r.ClientID, name, "v"); err != nil {
		b.t.Fatal(err)
	}
	b.StartWait(now, r)
	return r
}

func kindOf(err error) state.Kind {
	var refused *state.Error
	if errors.As(err, &refused) {
		return refused.Kind
	}
	return 0
}

func TestAbandonedSession(t *testing.T) {
	b := newBench(t, state.Config{})
	b.events(5 * time.Second) // last use
	again := func(after time.Duration) error {
		_, err := b.CreateSession(b.at(after), b.set.Scope, b.set.ID, "other")
		return err
	}
	if err := again(94 * time.Second); kindOf(err) != state.SessionConflict {
		t.Errorf("89 s after the last use: %v", err)
	}
	if err := again(96 * time.Second); err != nil {
		t.Errorf("91 s after the last use: %v", err)
	}
}

func TestPollKeepsSessionAlive(t *testing.T) {
	b := newBench(t, state.Config{SessionLifetime: time.Minute})
	poll, err := b.StartPoll(start, b.session.ID, b.session.Token, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.EndPoll(b.at(10*time.Minute), poll)
	if live := b.Snapshot().Sessions; len(live) != 1 || live[0].ID != b.session.ID {
		t.Errorf("the session ended during a poll: %+v", live)
	}
}

func TestQueueTokenExpires(t *testing.T) {
	b := newBench(t, state.Config{QueueTokenLifetime: time.Minute, SessionLifetime: time.Hour})
	poll := func(after time.Duration) error {
		p, err := b.StartPoll(b.at(after), b.session.ID, b.session.Token, 0, 1)
		if err == nil {
			b.EndPoll(start.Add(after), p)
		}
		return err
	}
	if err := poll(59 * time.Second); err != nil {
		t.Error(err)
	}
	if err := poll(time.Minute); kindOf(err) != state.Unauthorized {
		t.Errorf("expired token: %v", err)
	}
	if _, err := b.RefreshSession(b.at(61*time.Second), b.set.Scope, b.set.ID, b.session.ID); err != nil {
		t.Error(err)
	}
	if err := poll(62 * time.Second); err != nil {
		t.Errorf("refreshed token: %v", err)
	}
}

// Nobody picks the job up: assigned four times with growing pauses, then given up.
func TestMissedPickup(t *testing.T) {
	b := newBench(t, state.Config{PickupTimeout: time.Minute, ReassignDelay: 10 * time.Second, SessionLifetime: time.Hour})
	job := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}})[0]
	at := time.Duration(0)
	for attempt, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 0} {
		if got := b.events(at); len(got) != 1 || got[0].Type != state.JobAssigned {
			t.Fatalf("attempt %d: got %+v, want JobAssigned", attempt, got)
		}
		at += time.Minute
		got := b.events(at)
		if len(got) != 1 || got[0].Type != state.JobCompleted || got[0].Result != state.ResultCanceled ||
			*got[0].RunnerID != 0 ||
			*got[0].RunnerName != "" {
			t.Fatalf("attempt %d: got %+v, want JobCompleted canceled", attempt, got)
		}
		at += pause
	}
	if job.State != state.Completed || job.Attempts != 4 {
		t.Errorf("job is %s after %d attempts", job.State, job.Attempts)
	}
}

func TestPickupInTime(t *testing.T) {
	b := newBench(t, state.Config{PickupTimeout: time.Minute})
	job := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}, Duration: 10 * time.Minute})[0]
	b.events(0)
	b.runner(59*time.Second, "runner-1")
	if b.at(2 * time.Minute); job.State != state.Running || job.Attempts != 1 {
		t.Errorf("job is %s after %d attempts", job.State, job.Attempts)
	}
}

func TestFinishedRunnerLingers(t *testing.T) {
	b := newBench(t, state.Config{RunnerLinger: 20 * time.Second})
	b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}, Duration: time.Second})
	b.events(0)
	r := b.runner(0, "runner-1")
	b.at(2 * time.Second)
	if got := b.Look(r, true, false); got.Kind != state.DoneEvent || got.Job.Result != state.ResultSucceeded {
		t.Fatalf("runner learns %+v", got)
	}
	if err := b.RemoveRunner(b.set.Scope, r.ID); kindOf(err) != state.JobStillRunning {
		t.Errorf("removal while it lingers: %v", err)
	}
	if _, err := b.RegisterRunner(start, b.set.Scope, b.set.ID, "runner-1", ""); kindOf(err) != state.RunnerExists {
		t.Errorf("its name again: %v", err)
	}
	b.at(21 * time.Second)
	if _, err := b.Runner(nil, r.ID); kindOf(err) != state.RunnerNotFound {
		t.Errorf("after lingering: %v", err)
	}
}

func TestOfferRepeat(t *testing.T) {
	b := newBench(t, state.Config{Flow: state.Acquire, OfferRepeat: 30 * time.Second, SessionLifetime: time.Hour})
	job := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}})[0]
	for _, at := range []time.Duration{0, 31 * time.Second, 62 * time.Second} {
		got := b.events(at)
		if len(got) != 1 || got[0].Type != state.JobAvailable {
			t.Fatalf("at %s: got %+v", at, got)
		}
		if err := b.DeleteMessage(start.Add(at), b.session.ID, b.session.Token, b.last); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.AcquireJobs(b.at(63*time.Second), b.set.ID, b.session.Token, []int64{job.RequestID}); err != nil {
		t.Fatal(err)
	}
	if got := b.events(5 * time.Minute); len(got) != 1 || got[0].Type != state.JobAssigned {
		t.Errorf("after acquiring: %+v", got)
	}
}

func TestRunnerOutOfTouch(t *testing.T) {
	b := newBench(t, state.Config{RunnerLostAfter: time.Minute})
	idle := b.runner(0, "idle")
	b.EndWait(start, idle)
	b.at(59 * time.Second)
	if got := b.Statistics(b.set); got.Idle != 1 {
		t.Errorf("59 s out of touch: %+v", got)
	}
	b.at(time.Minute)
	if got := b.Statistics(b.set); got.Idle != 0 || got.Registered != 1 {
		t.Errorf("60 s out of touch: %+v", got)
	}
}

// A runner that comes back in time finishes its job, late but well.
func TestRunnerComesBack(t *testing.T) {
	b := newBench(t, state.Config{RunnerLostAfter: time.Minute})
	job := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}, Duration: 10 * time.Second})[0]
	b.events(0)
	r := b.runner(0, "runner-1")
	b.EndWait(start.Add(time.Second), r)
	if b.at(30 * time.Second); job.State != state.Running {
		t.Fatalf("job is %s while its runner is away", job.State)
	}
	b.StartWait(b.at(31*time.Second), r)
	if job.State != state.Completed || job.Result != state.ResultSucceeded {
		t.Errorf("job is %s %s", job.State, job.Result)
	}
}

// A job of a matrix fails with its runner, and the others are cancelled. Whether they run again with it is a rule.
func TestFailFast(t *testing.T) {
	for name, onlyFailed := range map[string]bool{"with cancelled jobs": false, "failed jobs only": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, state.Config{RunnerLostAfter: time.Minute, RerunsOnlyFailed: onlyFailed})
			spec := state.JobSpec{Labels: []string{"linux"}, Duration: time.Hour, FailFast: true}
			jobs := b.QueueJobs(start, spec, spec, spec)
			b.events(0)
			b.EndWait(start.Add(time.Second), b.runner(0, "runner-1"))
			b.at(2 * time.Minute)
			run, err := b.Run("acme", "demo", jobs[0].RunID)
			if err != nil {
				t.Fatal(err)
			}
			if status, conclusion := run.Status(); status != "completed" || conclusion != "failure" {
				t.Fatalf("the run is %s %s", status, conclusion)
			}
			if err := b.Rerun(b.at(3*time.Minute), run, 0, state.Again{}); err != nil {
				t.Fatal(err)
			}
			again := 0
			for _, job := range run.RunJobs(false) {
				if status, _ := job.Status(); status != "completed" {
					again++
				}
			}
			if want := map[bool]int{false: 3, true: 1}[onlyFailed]; again != want {
				t.Errorf("%d jobs run again, want %d", again, want)
			}
		})
	}
}

// A person cancels a run as a whole: that is its conclusion, whatever has failed before.
func TestARunIsCancelled(t *testing.T) {
	b := newBench(t, state.Config{})
	job := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}})[0]
	run, err := b.Run("", "demo", job.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.CancelRun(b.at(time.Second), run.ID); err != nil {
		t.Fatal(err)
	}
	if status, conclusion := run.Status(); status != "completed" || conclusion != "cancelled" {
		t.Errorf("the run is %s %s", status, conclusion)
	}
}

func TestRunningJobsEndOnDemand(t *testing.T) {
	b := newBench(t, state.Config{})
	jobs := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}, Duration: time.Hour},
		state.JobSpec{Labels: []string{"linux"}, Duration: time.Hour})
	b.events(0)
	b.runner(0, "runner-1")
	b.EndJobs(b.at(time.Second))
	if jobs[0].State != state.Completed || jobs[0].Result != state.ResultSucceeded {
		t.Errorf("the running job is %s %s", jobs[0].State, jobs[0].Result)
	}
	if jobs[1].State != state.Assigned {
		t.Errorf("the job that waits for a runner is %s", jobs[1].State)
	}
}
