package state

import (
	"container/heap"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/harrier-ci/harrier/internal/fakegithub/releases"
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
	releases   releases.List
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
		releases:    releases.All,
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

// JobState is the state of a job.
type JobState string

// The states of a job, in order. Acquired is bound to a scale set and waiting
// for room in it; an assigned job that nobody picked up goes back there.
const (
	Queued    JobState = "queued"
	Acquired  JobState = "acquired"
	Assigned  JobState = "assigned"
	Running   JobState = "running"
	Completed JobState = "completed"
)

// Results of jobs that did not end by themselves.
const (
	ResultSucceeded = "succeeded"
	ResultFailed    = "failed"
	ResultCanceled  = "canceled"
)

// The service assigns a job that no runner picks up maxAttempts times: the first time and three more.
const maxAttempts = 4

// JobSpec describes one job to queue. Owner and Repository left empty fit the
// scope of whatever scale set takes the job.
type JobSpec struct {
	Labels      []string
	Duration    time.Duration
	Result      string
	Name        string
	Owner       string
	Repository  string
	WorkflowRef string
	Event       string
	// Commit is that of the run; default one of its own. HeadRepository is where it is; default the repository.
	Commit, HeadRepository string
	// FailFast: when one of the jobs that were queued together fails, GitHub cancels the others, as in a matrix.
	FailFast bool
	// Actor has begun the attempt of the run; default a person. Debug is set if it has debug logging.
	Actor string
	Debug bool
}

// Job is one job and its history; times are zero until they happen.
type Job struct {
	RequestID int64
	JobID     string
	RunID     int64
	// RunAttempt is the attempt of the run for which the job was queued; the first is 1.
	RunAttempt int
	Spec       JobSpec
	State      JobState
	Result     string
	Attempts   int
	// Steps are those that its runner has added by itself.
	Steps []Step

	QueuedAt, AvailableAt, AcquiredAt, AssignedAt, StartedAt, CompletedAt time.Time

	set       *ScaleSet
	runner    *Runner
	notBefore time.Time    // earliest new assignment after a missed pick-up
	offered   map[int]bool // scale sets that got JobAvailable
	barred    map[int]bool // scale sets that never get the job
}

// QueueJobs queues the jobs of a new workflow run together and returns them.
func (s *State) QueueJobs(now time.Time, specs ...JobSpec) []*Job {
	s.lastRun++
	run := &Run{ID: s.lastRun, CreatedAt: now}
	s.runs[run.ID] = run
	return s.queueAttempt(now, run, nil, specs...)
}

// queueAttempt begins an attempt of a run, with jobs that it carries over and jobs that are queued for it, which it
// returns.
func (s *State) queueAttempt(now time.Time, run *Run, carried []*Job, specs ...JobSpec) []*Job {
	queued := make([]*Job, 0, len(specs))
	for _, spec := range specs {
		setDefault(&spec.Result, ResultSucceeded)
		setDefault(&spec.Name, "build")
		setDefault(&spec.Event, "push")
		setDefault(&spec.Actor, Person)
		s.lastRequest++
		job := &Job{
			RequestID: s.lastRequest, JobID: uuid.NewString(), RunID: run.ID, RunAttempt: len(run.attempts) + 1, Spec: spec,
			State: Queued, QueuedAt: now, offered: map[int]bool{}, barred: map[int]bool{},
		}
		s.bar(job)
		s.jobs[job.RequestID] = job
		s.jobOrder = append(s.jobOrder, job)
		s.waiting = append(s.waiting, job)
		queued = append(queued, job)
	}
	attempt := []RunJob{}
	for _, job := range slices.Concat(carried, queued) {
		s.lastRunJob++
		attempt = append(attempt, RunJob{ID: s.lastRunJob, Attempt: len(run.attempts) + 1, Job: job})
	}
	run.attempts = append(run.attempts, attempt)
	for _, set := range s.sets {
		s.offerJobs(now, set, queued)
	}
	s.place(now)
	return queued
}

// CancelJob ends a job that is not completed; its runner is told. It fails with
// JobNotFound for an unknown or completed one.
func (s *State) CancelJob(now time.Time, requestID int64) error {
	job, ok := s.jobs[requestID]
	if !ok || job.State == Completed {
		return refuse(JobNotFound, "No active job found with request identifier %d.", requestID)
	}
	s.complete(now, job, ResultCanceled)
	return nil
}

// complete ends a job for ever and tells its set, if it has one.
func (s *State) complete(now time.Time, job *Job, result string) {
	if job.State == Queued {
		s.waiting = without(s.waiting, job)
	}
	job.State, job.Result, job.CompletedAt = Completed, result, now
	set := job.set
	if set == nil {
		return
	}
	delete(set.jobs, job.RequestID)
	set.unpicked = without(set.unpicked, job)
	set.post(JobCompleted, job)
	if job.runner != nil {
		s.finish(now, job.runner)
	}
	s.place(now, set)
	s.failFast(now, job)
}

// start hands an assigned job to a waiting runner.
func (s *State) start(now time.Time, job *Job, r *Runner) {
	if job.runner != nil {
		s.anomaly(now, JobRunTwice, r, job, "the job was run by "+job.runner.Name+" before")
	}
	job.State, job.StartedAt, job.runner = Running, now, r
	r.job = job
	job.set.post(JobStarted, job)
	signal(r.wake)
	s.after(now.Add(job.Spec.Duration), func(now time.Time) { s.finishIfDue(now, r) })
}

// finishIfDue completes the job of a runner whose time has come, provided the
// runner is there to report it; otherwise it is done when the runner comes back.
func (s *State) finishIfDue(now time.Time, r *Runner) {
	job := r.job
	if job == nil || r.polls == 0 || now.Before(job.StartedAt.Add(job.Spec.Duration)) {
		return
	}
	if r.holdsEnd {
		r.stepsEnd = true
		signal(r.wake)
		return
	}
	s.complete(now, job, job.Spec.Result)
}

// EndJobs lets every running job come to its end now, with the result it was queued with.
func (s *State) EndJobs(now time.Time) {
	for _, job := range s.jobOrder {
		if job.State == Running {
			job.Spec.Duration = now.Sub(job.StartedAt)
			s.finishIfDue(now, job.runner)
		}
	}
}

// missPickup takes back an assignment that no runner has followed: the client
// sees it canceled, and after a growing pause the same job is assigned again.
func (s *State) missPickup(now time.Time, job *Job, attempt int) {
	if job.State != Assigned || job.Attempts != attempt {
		return
	}
	if attempt >= maxAttempts {
		s.complete(now, job, ResultCanceled)
		return
	}
	set := job.set
	set.unpicked = without(set.unpicked, job)
	assigned := job.AssignedAt
	job.State, job.Result, job.CompletedAt = Acquired, ResultCanceled, now
	set.post(JobCompleted, job)
	job.Result, job.CompletedAt = "", time.Time{}
	job.AssignedAt = assigned
	job.notBefore = now.Add(s.cfg.ReassignDelay << (attempt - 1))
	s.after(job.notBefore, func(now time.Time) { s.place(now, set) })
	s.place(now, set)
}

// requeue takes a job that is not running away from its set.
func (s *State) requeue(job *Job) {
	delete(job.set.jobs, job.RequestID)
	job.set.unpicked = without(job.set.unpicked, job)
	job.State, job.set, job.notBefore = Queued, nil, time.Time{}
	job.AcquiredAt, job.AssignedAt = time.Time{}, time.Time{}
	s.bar(job)
	s.waiting = append(s.waiting, job)
}

// bar keeps a job that is being queued from the scale sets that advertise 0, if that is final.
func (s *State) bar(job *Job) {
	for _, set := range s.sets {
		if s.cfg.ZeroIsFinal && set.advertisesZero() && set.matches(&job.Spec) {
			job.barred[set.ID] = true
		}
	}
}

func without[T comparable](list []T, item T) []T {
	for i := range list {
		if list[i] == item {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
