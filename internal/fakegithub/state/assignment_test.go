package state_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// Sets with the same label share jobs by the room they advertise.
func TestJobsAreSpreadByCapacity(t *testing.T) {
	s := state.New(state.Config{MultiLabel: true})
	scope := s.Scope("orgs", "acme", "")
	capacities := []int{10, 30, 0}
	sets := make([]*state.ScaleSet, len(capacities))
	for i, capacity := range capacities {
		set, err := s.CreateScaleSet(start, scope,
			state.ScaleSetSpec{Name: string(rune('a' + i)), Labels: []state.Label{{Name: "linux"}}})
		if err != nil {
			t.Fatal(err)
		}
		session, err := s.CreateSession(start, scope, set.ID, "me")
		if err != nil {
			t.Fatal(err)
		}
		poll, err := s.StartPoll(start, session.ID, session.Token, 0, capacity)
		if err != nil {
			t.Fatal(err)
		}
		defer s.EndPoll(start, poll)
		sets[i] = set
	}
	s.QueueJobs(start, make20()...)
	for i, want := range []int{0, 20, 0} {
		if got := s.Statistics(sets[i]).Assigned; got != want {
			t.Errorf("set %s has %d jobs, want %d", sets[i].Name, got, want)
		}
	}
	s.QueueJobs(start, make20()...)
	s.QueueJobs(start, make20()...)
	for i, want := range capacities {
		if got := s.Statistics(sets[i]); got.Assigned != want || got.Available != 20 {
			t.Errorf("set %s: %+v, want %d assigned, 20 available", sets[i].Name, got, want)
		}
	}
}

func make20() []state.JobSpec {
	specs := make([]state.JobSpec, 20)
	for i := range specs {
		specs[i] = state.JobSpec{Labels: []string{"linux"}}
	}
	return specs
}

func TestMatching(t *testing.T) {
	labels := state.ScaleSetSpec{Name: "linux", Labels: []state.Label{{Name: "linux"}, {Name: "GPU"}}}
	tests := map[string]struct {
		spec                  state.JobSpec
		org, repo, enterprise bool
	}{
		"one label":          {state.JobSpec{Labels: []string{"Linux"}}, true, true, true},
		"all labels":         {state.JobSpec{Labels: []string{"gpu", "linux"}}, true, true, true},
		"one label too many": {state.JobSpec{Labels: []string{"linux", "arm"}}, false, false, false},
		"the repository":     {state.JobSpec{Labels: []string{"linux"}, Owner: "Acme", Repository: "app"}, true, true, true},
		"another repository": {state.JobSpec{Labels: []string{"linux"}, Owner: "acme", Repository: "web"}, true, false, true},
		"another owner":      {state.JobSpec{Labels: []string{"linux"}, Owner: "other"}, false, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := state.New(state.Config{MultiLabel: true})
			org, _ := s.CreateScaleSet(start, s.Scope("orgs", "acme", ""), labels)
			repo, _ := s.CreateScaleSet(start, s.Scope("repos", "acme", "app"), labels)
			enterprise, _ := s.CreateScaleSet(start, s.Scope("enterprises", "big", ""), labels)
			s.QueueJobs(start, tt.spec) // which stays there, because no set has a session
			var got [3]bool
			for i, set := range []*state.ScaleSet{org, repo, enterprise} {
				got[i] = s.Statistics(set).Available == 1
			}
			if want := [3]bool{tt.org, tt.repo, tt.enterprise}; got != want {
				t.Errorf("organization, repository, enterprise: got %v, want %v", got, want)
			}
		})
	}
}

// What a deleted scale set had not started yet goes to another set that fits.
func TestDeletedScaleSetGivesItsJobsBack(t *testing.T) {
	b := newBench(t, state.Config{})
	jobs := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}, Duration: time.Hour},
		state.JobSpec{Labels: []string{"linux"}})
	b.events(0)
	b.runner(0, "runner-1")
	if err := b.DeleteScaleSet(start, b.set.Scope, b.set.ID, true); err != nil {
		t.Fatal(err)
	}
	if jobs[0].State != state.Running || jobs[1].State != state.Queued {
		t.Errorf("jobs are %s and %s", jobs[0].State, jobs[1].State)
	}
	if a := b.Anomalies(); len(a) != 1 || a[0].Kind != state.ScaleSetDeletedBusy {
		t.Errorf("anomalies %v", a)
	}
	if b.at(2 * time.Hour); jobs[0].Result != state.ResultSucceeded {
		t.Errorf("the running job ended %s %s", jobs[0].State, jobs[0].Result)
	}
}

// An offer that was taken or cancelled before it was delivered is not delivered.
func TestStaleOffersAreDropped(t *testing.T) {
	b := newBench(t, state.Config{Flow: state.Acquire})
	jobs := b.QueueJobs(start, state.JobSpec{Labels: []string{"linux"}}, state.JobSpec{Labels: []string{"linux"}})
	if err := b.CancelJob(start, jobs[0].RequestID); err != nil {
		t.Fatal(err)
	}
	got := b.events(0)
	if len(got) != 1 || got[0].RunnerRequestID != jobs[1].RequestID {
		t.Errorf("offers %+v", got)
	}
}

// caller is a client of one scale set.
type caller struct {
	t       *testing.T
	s       *state.State
	set     *state.ScaleSet
	session *state.Session
}

func (c *caller) open() {
	c.t.Helper()
	var err error
	if c.session, err = c.s.CreateSession(start, c.set.Scope, c.set.ID, "me"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) close() {
	c.t.Helper()
	if err := c.s.DeleteSession(c.set.Scope, c.set.ID, c.session.ID); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) poll(capacity int) {
	c.t.Helper()
	poll, err := c.s.StartPoll(start, c.session.ID, c.session.Token, 0, capacity)
	if err != nil {
		c.t.Fatal(err)
	}
	c.s.EndPoll(start, poll)
}

func (c *caller) queue() *state.Job {
	return c.s.QueueJobs(start, state.JobSpec{Labels: []string{c.set.Name}})[0]
}

// acquire asks for all jobs, whether or not they were offered.
func (c *caller) acquire(jobs ...*state.Job) {
	c.t.Helper()
	var ids []int64
	for _, job := range jobs {
		ids = append(ids, job.RequestID)
	}
	if _, err := c.s.AcquireJobs(start, c.set.ID, c.session.Token, ids); err != nil {
		c.t.Fatal(err)
	}
}

// What queues while a session advertises 0 never comes to that set, in whatever session; a set without a session, or
// before its first poll, bars nothing.
func TestZeroIsFinal(t *testing.T) {
	for _, flow := range []state.Flow{state.AutoAssign, state.Acquire} {
		t.Run(string(flow), func(t *testing.T) {
			s := state.New(state.Config{MultiLabel: true, Flow: flow, ZeroIsFinal: true})
			set, err := s.CreateScaleSet(start, s.Scope("orgs", "acme", ""), state.ScaleSetSpec{Name: "linux"})
			if err != nil {
				t.Fatal(err)
			}
			c := &caller{t: t, s: s, set: set}
			free := []*state.Job{c.queue()}
			c.open()
			free = append(free, c.queue())
			c.poll(0)
			if s.MessageStatistics(set) != nil {
				t.Error("a session that advertises 0 gets statistics")
			}
			barred := c.queue()
			c.poll(0)
			c.close()
			free = append(free, c.queue())
			c.open()
			c.poll(10)
			if got := s.MessageStatistics(set); got == nil || got.Assigned+got.Available != len(free) {
				t.Errorf("statistics %+v, want the %d jobs that are not barred", got, len(free))
			}
			c.acquire(append(free, barred)...)
			for _, job := range free {
				if view := job.View(); view.State != state.Assigned || view.BarredFrom != nil {
					t.Errorf("job %+v is not assigned", view)
				}
			}
			if view := barred.View(); view.State != state.Queued || len(view.BarredFrom) != 1 {
				t.Errorf("job %+v, want it barred", view)
			}
			if got := s.Anomalies(); len(got) != 1 || got[0].Kind != state.ZeroAdvertised {
				t.Errorf("anomalies %v, want one for both polls", got)
			}
		})
	}
}
