package state_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// world drives a State with random operations and remembers what it was told.
type world struct {
	t       *testing.T
	s       *state.State
	rng     *rand.Rand
	now     time.Time
	scope   *state.Scope
	polls   map[int]*state.Poll // under way, by scale set
	runners []*state.Runner     // connected
	waiting map[*state.Runner]bool
	started map[int64]int
	ended   map[int64]int
	lastID  map[int]int64
	names   int
	// jobs are all in order, sessions the last of each scale set, and setOf has the scale set of each runner by name.
	jobs     []*state.Job
	sessions map[int]*state.Session
	setOf    map[string]int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: start,
		polls: map[int]*state.Poll{}, waiting: map[*state.Runner]bool{}, started: map[int64]int{}, ended: map[int64]int{},
		lastID: map[int]int64{}, sessions: map[int]*state.Session{}, setOf: map[string]int{},
	}
	cfg := state.Config{Flow: state.AutoAssign, MultiLabel: true, RunnerLinger: time.Duration(w.rng.IntN(3)) * time.Second}
	if w.rng.IntN(2) == 0 {
		cfg.Flow, cfg.OfferRepeat = state.Acquire, 5*time.Second
	}
	if w.rng.IntN(2) == 0 {
		cfg.PickupTimeout = 20 * time.Second
	}
	w.s = state.New(cfg)
	w.scope = w.s.Scope("orgs", "acme", "")
	return w
}

func (w *world) randomSet() *state.ScaleSet {
	sets := w.s.ScaleSets(nil, 0, "")
	if len(sets) == 0 {
		return nil
	}
	return sets[w.rng.IntN(len(sets))]
}

func (w *world) randomRunner() *state.Runner {
	if len(w.runners) == 0 {
		return nil
	}
	return w.runners[w.rng.IntN(len(w.runners))]
}

// step does one random thing; refusals are part of the game.
func (w *world) step() {
	set, r := w.randomSet(), w.randomRunner()
	switch n := w.rng.IntN(100); {
	case n < 3:
		name := fmt.Sprintf("set-%d", w.rng.IntN(4))
		_, _ = w.s.CreateScaleSet(w.now, w.scope, state.ScaleSetSpec{Name: name,
			Labels: []state.Label{{Name: name}, {Name: "any"}}})
	case n < 15:
		label := []string{"any", "set-0", "set-1", "nobody"}[w.rng.IntN(4)]
		specs := make([]state.JobSpec, w.rng.IntN(70))
		for i := range specs {
			specs[i] = state.JobSpec{Labels: []string{label}, Duration: time.Duration(w.rng.IntN(9)) * time.Second}
		}
		w.jobs = append(w.jobs, w.s.QueueJobs(w.now, specs...)...)
	case n < 18 && len(w.jobs) > 0:
		_ = w.s.CancelJob(w.now, w.jobs[w.rng.IntN(len(w.jobs))].RequestID)
	case n < 30:
		w.now = w.now.Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
		w.s.Advance(w.now)
	case set == nil:
	case n < 31:
		_ = w.s.DeleteScaleSet(w.now, w.scope, set.ID, w.rng.IntN(2) == 0)
	case n < 33:
		w.s.EvictSessions(set.ID)
	case n < 40:
		if session, err := w.s.CreateSession(w.now, w.scope, set.ID, "me"); err == nil {
			w.sessions[set.ID] = session
		}
	case n < 60:
		w.poll(set)
	case n < 78:
		w.newRunner(set)
	case r != nil:
		w.useRunner(r)
	}
}

// session returns the live session of a scale set, nil if there is none.
func (w *world) session(set *state.ScaleSet) *state.Session {
	for _, live := range w.s.Snapshot().Sessions {
		if last := w.sessions[set.ID]; live.ScaleSetID == set.ID {
			if last == nil || last.ID != live.ID {
				w.t.Fatalf("session %+v lives, %+v is the last that was opened", live, last)
			}
			return last
		}
	}
	return nil
}

func (w *world) poll(set *state.ScaleSet) {
	session := w.session(set)
	if session == nil {
		return
	}
	last := w.lastID[set.ID]
	if w.rng.IntN(10) == 0 {
		last = 0 // a restarted client
	}
	poll, err := w.s.StartPoll(w.now, session.ID, session.Token, last, w.rng.IntN(80))
	if err != nil {
		w.t.Fatalf("poll of a live session: %v", err)
	}
	defer w.s.EndPoll(w.now, poll)
	m, err := w.s.Collect(poll)
	if err != nil || m == nil {
		return
	}
	if len(m.Entries) == 0 || len(m.Entries) > 50 || m.ID <= last {
		w.t.Fatalf("message %d after %d has %d entries", m.ID, last, len(m.Entries))
	}
	if m.ID > w.lastID[set.ID] { // not a repetition
		w.lastID[set.ID] = m.ID
		w.read(m)
	}
	w.acquire(set, session, m)
	if w.rng.IntN(3) > 0 {
		_ = w.s.DeleteMessage(w.now, session.ID, session.Token, m.ID)
	}
}

func (w *world) read(m *state.Message) {
	for _, e := range m.Entries {
		switch e.Type {
		case state.JobStarted:
			w.started[e.RunnerRequestID]++
		case state.JobCompleted:
			if *e.RunnerID != 0 {
				w.ended[e.RunnerRequestID]++
			}
		}
	}
}

func (w *world) acquire(set *state.ScaleSet, session *state.Session, m *state.Message) {
	ids := []int64{}
	for _, e := range m.Entries {
		if e.Type == state.JobAvailable {
			ids = append(ids, e.RunnerRequestID)
		}
	}
	if len(ids) > 0 && w.rng.IntN(4) > 0 {
		_, _ = w.s.AcquireJobs(w.now, set.ID, session.Token, ids)
	}
}

func (w *world) newRunner(set *state.ScaleSet) {
	w.names++
	r, err := w.s.RegisterRunner(w.now, w.scope, set.ID, fmt.Sprintf("runner-%d", w.names), "")
	if err != nil {
		w.t.Fatalf("register: %v", err)
	}
	if _, err := w.s.Connect(w.now, r.ID, r.ClientID, r.Name, "v"); err != nil {
		w.t.Fatalf("connect: %v", err)
	}
	w.runners, w.setOf[r.Name] = append(w.runners, r), set.ID
	w.wait(r)
}

func (w *world) wait(r *state.Runner) {
	w.s.StartWait(w.now, r)
	w.waiting[r] = true
}

func (w *world) useRunner(r *state.Runner) {
	switch n := w.rng.IntN(10); {
	case w.waiting[r] && n < 3:
		w.s.EndWait(w.now, r)
		delete(w.waiting, r)
	case !w.waiting[r] && n < 7:
		w.wait(r)
	case n == 7:
		w.s.Leave(w.now, r)
	default:
		busy := slices.ContainsFunc(w.active(), func(job state.JobView) bool { return job.RunnerID == r.ID })
		if err := w.s.RemoveRunner(w.scope, r.ID); busy && err == nil {
			w.t.Fatalf("busy runner %s was removed", r.Name)
		}
	}
}

// registered counts the runners of each scale set that are still registered.
func (w *world) registered() map[int]int {
	count := map[int]int{}
	for _, r := range w.runners {
		if _, err := w.s.Runner(nil, r.ID); err == nil {
			count[w.setOf[r.Name]]++
		}
	}
	return count
}

// runs returns, by runner, the job that it says it has, if any job runs.
func (w *world) runs(active []state.JobView) map[int]int64 {
	of := map[int]int64{}
	if slices.ContainsFunc(active, func(job state.JobView) bool { return job.State == state.Running }) {
		for _, r := range w.s.Snapshot().Runners {
			of[r.ID] = r.Job
		}
	}
	return of
}

// check compares the statistics with a count over the whole job table, and what the client was told with what may
// happen a single time only.
func (w *world) check() {
	registered, active := w.registered(), w.active()
	runs := w.runs(active)
	for _, set := range w.s.ScaleSets(nil, 0, "") {
		got := w.s.Statistics(set)
		want := state.Statistics{Registered: registered[set.ID], Busy: got.Busy, Idle: got.Idle}
		for _, job := range w.jobs { // all have one label
			if label := job.Spec.Labels[0]; job.State == state.Queued && (label == "any" || label == set.Name) {
				want.Available++
			}
		}
		w.count(&want, set, active, runs)
		if got != want || got.Busy < got.Running || got.Busy+got.Idle > got.Registered {
			w.t.Fatalf("statistics of %s: got %+v, want %+v", set.Name, got, want)
		}
	}
	w.onceOnly("started", w.started)
	w.onceOnly("completed", w.ended)
	for _, a := range w.s.Anomalies() {
		if a.Kind == state.JobRunTwice || a.Kind == state.JITConfigReused || a.Kind == state.UnknownRunner {
			w.t.Fatalf("anomaly: %s", a)
		}
	}
}

// active returns the jobs that a scale set has and that have not ended.
func (w *world) active() (views []state.JobView) {
	for _, job := range w.jobs {
		if job.State != state.Queued && job.State != state.Completed {
			views = append(views, job.View())
		}
	}
	return views
}

func (w *world) count(
	st *state.Statistics, set *state.ScaleSet, active []state.JobView, runs map[int]int64,
) {
	for _, job := range active {
		if job.ScaleSetID != set.ID {
			continue
		}
		switch job.State {
		case state.Acquired:
			st.Acquired++
		case state.Assigned:
			st.Assigned++
		case state.Running:
			st.Assigned++
			st.Running++
			if job.RunnerID == 0 || runs[job.RunnerID] != job.RequestID {
				w.t.Fatalf("job %d runs on a runner that does not know", job.RequestID)
			}
		}
	}
}

func (w *world) onceOnly(what string, times map[int64]int) {
	for id, n := range times {
		if n > 1 {
			w.t.Fatalf("job %d was %s %d times", id, what, n)
		}
	}
}

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 400 {
				w.step()
				w.check()
			}
		})
	}
}
