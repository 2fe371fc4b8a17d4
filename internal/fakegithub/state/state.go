package state

import (
	"container/heap"
	"time"
)

// State is everything one GitHub knows. Create it with New.
type State struct {
	cfg        Config
	now        time.Time // as of the last Advance
	timers     timerHeap
	scopes     map[string]*Scope
	sets       map[int]*ScaleSet
	sessions   map[string]*Session
	runners    map[int]*Runner
	jobs       map[int64]*Job
	runs       map[int64]*Run
	jobOrder   []*Job
	waiting    []*Job // queued and bound to no set, oldest first
	anomalies  []Anomaly
	deprecated map[string]bool
	enforcing  bool
	groups     []RunnerGroup

	lastScope, lastSet, lastRunner int
	lastRequest, lastRun           int64
	lastRunJob                     int64
	nextMessage, lastTimer         int64
}

// New returns an empty GitHub with the given rules and, beside the default
// runner group (id 1), one group for each name.
func New(cfg Config, groups ...string) *State {
	cfg.setDefaults()
	s := &State{
		cfg:         cfg,
		scopes:      map[string]*Scope{},
		sets:        map[int]*ScaleSet{},
		sessions:    map[string]*Session{},
		runners:     map[int]*Runner{},
		jobs:        map[int64]*Job{},
		runs:        map[int64]*Run{},
		deprecated:  map[string]bool{},
		groups:      []RunnerGroup{{ID: 1, Name: "Default", IsDefault: true}},
		lastRequest: 1000,   // so that request ids are not mistaken for runner ids
		lastRunJob:  50_000, // nor those of a run's jobs for either
		nextMessage: cfg.FirstMessageID,
	}
	for _, name := range groups {
		s.AddRunnerGroup(name)
	}
	return s
}

// Advance lets everything happen that falls due up to now, each at its own time.
func (s *State) Advance(now time.Time) {
	for len(s.timers) > 0 && !s.timers[0].at.After(now) {
		due := heap.Pop(&s.timers).(timer)
		s.now = due.at
		due.run(due.at)
	}
	s.now = now
}

// NextDue returns the time at which Advance has something to do; false when nothing is pending.
func (s *State) NextDue() (time.Time, bool) {
	if len(s.timers) == 0 {
		return time.Time{}, false
	}
	return s.timers[0].at, true
}

// after schedules run. There is no cancellation: run checks whether what it was
// meant for still holds.
func (s *State) after(at time.Time, run func(now time.Time)) {
	s.lastTimer++
	heap.Push(&s.timers, timer{at: at, order: s.lastTimer, run: run})
}

type timer struct {
	at    time.Time
	order int64 // keeps timers of the same instant in the order of their making
	run   func(now time.Time)
}

type timerHeap []timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	top := (*h)[last]
	*h = (*h)[:last]
	return top
}

// signal wakes whoever waits on ch. Channels have room for one wake-up, so a
// sender never blocks and a wake-up between two looks is not lost.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
