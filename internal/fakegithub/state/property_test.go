package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// world drives a State with random operations and remembers what it was told.
type world struct {
	t       *testing.T
	s       *State
	rng     *rand.Rand
	now     time.Time
	scope   *Scope
	polls   map[int]*Poll // under way, by scale set
	runners []*Runner     // connected
	waiting map[*Runner]bool
	started map[int64]int
	ended   map[int64]int
	lastID  map[int]int64
	names   int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: start,
		polls: map[int]*Poll{}, waiting: map[*Runner]bool{}, started: map[int64]int{}, ended: map[int64]int{},
		lastID: map[int]int64{},
	}
	cfg := Config{Flow: AutoAssign, MultiLabel: true, RunnerLinger: time.Duration(w.rng.IntN(3)) * time.Second}
	if w.rng.IntN(2) == 0 {
		cfg.Flow, cfg.OfferRepeat = Acquire, 5*time.Second
	}
	if w.rng.IntN(2) == 0 {
		cfg.PickupTimeout = 20 * time.Second
	}
	w.s = New(cfg)
	w.scope = w.s.Scope("orgs", "acme", "")
	return w
}

func (w *world) randomSet() *ScaleSet {
	sets := w.s.ScaleSets(nil, 0, "")
	if len(sets) == 0 {
		return nil
	}
	return sets[w.rng.IntN(len(sets))]
}

func (w *world) randomRunner() *Runner {
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
		_, _ = w.s.CreateScaleSet(w.now, w.scope, ScaleSetSpec{Name: name, Labels: []Label{{Name: name}, {Name: "any"}}})
	case n < 15:
		label := []string{"any", "set-0", "set-1", "nobody"}[w.rng.IntN(4)]
		specs := make([]JobSpec, w.rng.IntN(70))
		for i := range specs {
			specs[i] = JobSpec{Labels: []string{label}, Duration: time.Duration(w.rng.IntN(9)) * time.Second}
		}
		w.s.QueueJobs(w.now, specs...)
	case n < 18 && len(w.s.jobOrder) > 0:
		_ = w.s.CancelJob(w.now, w.s.jobOrder[w.rng.IntN(len(w.s.jobOrder))].RequestID)
	case n < 30:
		w.now = w.now.Add(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
		w.s.Advance(w.now)
	case set == nil:
	case n < 31:
		_ = w.s.DeleteScaleSet(w.now, w.scope, set.ID, w.rng.IntN(2) == 0)
	case n < 33:
		w.s.EvictSessions(set.ID)
	case n < 40:
		_, _ = w.s.CreateSession(w.now, w.scope, set.ID, "me")
	case n < 60:
		w.poll(set)
	case n < 78:
		w.newRunner(set)
	case r != nil:
		w.useRunner(r)
	}
}

func (w *world) poll(set *ScaleSet) {
	if set.session == nil {
		return
	}
	last := w.lastID[set.ID]
	if w.rng.IntN(10) == 0 {
		last = 0 // a restarted client
	}
	poll, err := w.s.StartPoll(w.now, set.session.ID, set.session.Token, last, w.rng.IntN(80))
	if err != nil {
		w.t.Fatalf("poll of a live session: %v", err)
	}
	defer w.s.EndPoll(w.now, poll)
	m, err := w.s.Collect(poll)
	if err != nil || m == nil {
		return
	}
	if len(m.Entries) == 0 || len(m.Entries) > maxEntries || m.ID <= last {
		w.t.Fatalf("message %d after %d has %d entries", m.ID, last, len(m.Entries))
	}
	if m.ID > w.lastID[set.ID] { // not a repetition
		w.lastID[set.ID] = m.ID
		w.read(m)
	}
	w.acquire(set, m)
	if w.rng.IntN(3) > 0 {
		_ = w.s.DeleteMessage(w.now, set.session.ID, set.session.Token, m.ID)
	}
}

func (w *world) read(m *Message) {
	for _, e := range m.Entries {
		switch e.Type {
		case JobStarted:
			w.started[e.RunnerRequestID]++
		case JobCompleted:
			if *e.RunnerID != 0 {
				w.ended[e.RunnerRequestID]++
			}
		}
	}
}

func (w *world) acquire(set *ScaleSet, m *Message) {
	ids := []int64{}
	for _, e := range m.Entries {
		if e.Type == JobAvailable {
			ids = append(ids, e.RunnerRequestID)
		}
	}
	if len(ids) > 0 && w.rng.IntN(4) > 0 {
		_, _ = w.s.AcquireJobs(w.now, set.ID, set.session.Token, ids)
	}
}

func (w *world) newRunner(set *ScaleSet) {
	w.names++
	r, err := w.s.RegisterRunner(w.now, w.scope, set.ID, fmt.Sprintf("runner-%d", w.names), "")
	if err != nil {
		w.t.Fatalf("register: %v", err)
	}
	if _, err := w.s.Connect(w.now, r.ID, r.ClientID, r.Name, "v"); err != nil {
		w.t.Fatalf("connect: %v", err)
	}
	w.runners = append(w.runners, r)
	w.wait(r)
}

func (w *world) wait(r *Runner) {
	w.s.StartWait(w.now, r)
	w.waiting[r] = true
}

func (w *world) useRunner(r *Runner) {
	switch n := w.rng.IntN(10); {
	case w.waiting[r] && n < 3:
		w.s.EndWait(w.now, r)
		delete(w.waiting, r)
	case !w.waiting[r] && n < 7:
		w.wait(r)
	case n == 7:
		w.s.Leave(w.now, r)
	default:
		busy := r.job != nil
		if err := w.s.RemoveRunner(w.scope, r.ID); busy && err == nil {
			w.t.Fatalf("busy runner %s was removed", r.Name)
		}
	}
}

// check compares the statistics with a count over the whole job table, and what the client was told with what may
// happen a single time only.
func (w *world) check() {
	for _, set := range w.s.ScaleSets(nil, 0, "") {
		got := w.s.Statistics(set)
		want := Statistics{Registered: len(set.runners), Busy: got.Busy, Idle: got.Idle}
		for _, job := range w.s.jobOrder {
			w.count(&want, set, job)
		}
		if got != want || got.Busy < got.Running || got.Busy+got.Idle > got.Registered {
			w.t.Fatalf("statistics of %s: got %+v, want %+v", set.Name, got, want)
		}
	}
	w.onceOnly("started", w.started)
	w.onceOnly("completed", w.ended)
	for _, a := range w.s.Anomalies() {
		if a.Kind == JobRunTwice || a.Kind == JITConfigReused || a.Kind == UnknownRunner {
			w.t.Fatalf("anomaly: %s", a)
		}
	}
}

func (w *world) count(st *Statistics, set *ScaleSet, job *Job) {
	if job.State == Queued && set.matches(&job.Spec) {
		st.Available++
	}
	if job.set != set {
		return
	}
	switch job.State {
	case Acquired:
		st.Acquired++
	case Assigned:
		st.Assigned++
	case Running:
		st.Assigned++
		st.Running++
		if job.runner == nil || job.runner.job != job {
			w.t.Fatalf("job %d runs on a runner that does not know", job.RequestID)
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
