package state

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

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
	s.begin(run, slices.Concat(carried, queued))
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

// Limits of re-runs, as GitHub documents them.
const (
	rerunFor   = 30 * 24 * time.Hour
	mostReruns = 50
)

// Run is one workflow run. Jobs that are queued together are the jobs of its first attempt.
type Run struct {
	ID        int64
	CreatedAt time.Time
	// attempts has the jobs of each attempt.
	attempts [][]RunJob
}

// RunJob is a job as a part of one attempt. Jobs that an attempt doesn't run again are carried over into it, as they
// ended.
type RunJob struct {
	// ID is the job's number in the REST API, another one in each attempt.
	ID      int64
	Attempt int
	Job     *Job
}

// begin adds an attempt to a run.
func (s *State) begin(run *Run, jobs []*Job) {
	attempt := []RunJob{}
	for _, job := range jobs {
		s.lastRunJob++
		attempt = append(attempt, RunJob{ID: s.lastRunJob, Attempt: len(run.attempts) + 1, Job: job})
	}
	run.attempts = append(run.attempts, attempt)
}

// Run returns a run of a repository, or fails with RunNotFound. Jobs that name no owner have one when a set has them.
func (s *State) Run(owner, repository string, id int64) (*Run, error) {
	if run, known := s.runs[id]; known {
		for _, job := range run.attempts[0] {
			ofOwner, ofName := job.Job.repository(job.Job.set)
			if strings.EqualFold(ofOwner, owner) && strings.EqualFold(ofName, repository) {
				return run, nil
			}
		}
	}
	return nil, refuse(RunNotFound, "Not Found")
}

// RunOfJob returns the run with a job of that number in the REST API, or fails with RunNotFound.
func (s *State) RunOfJob(owner, repository string, id int64) (*Run, error) {
	for _, run := range s.runs {
		for _, attempt := range run.attempts {
			if slices.ContainsFunc(attempt, func(j RunJob) bool { return j.ID == id }) {
				return s.Run(owner, repository, run.ID)
			}
		}
	}
	return nil, refuse(RunNotFound, "Not Found")
}

// Attempt is the number of the newest attempt.
func (r *Run) Attempt() int { return len(r.attempts) }

// RunJobs returns the jobs of the newest attempt, or of all.
func (r *Run) RunJobs(ofAll bool) []RunJob {
	if ofAll {
		return slices.Concat(r.attempts...)
	}
	return r.attempts[len(r.attempts)-1]
}

// Status returns status and conclusion of the newest attempt as the REST API names them.
func (r *Run) Status() (status, conclusion string) {
	status, conclusion = "completed", "success"
	for _, job := range r.RunJobs(false) {
		of, ended := job.Status()
		switch {
		case of != "completed":
			status = "in_progress"
		case ended == "failure", ended == "cancelled" && conclusion != "failure":
			conclusion = ended
		}
	}
	if status != "completed" {
		conclusion = ""
	}
	return status, conclusion
}

// Status returns status and conclusion of a job as the REST API names them.
func (j RunJob) Status() (status, conclusion string) {
	switch j.Job.State {
	case Running:
		return "in_progress", ""
	case Completed:
	default:
		return "queued", ""
	}
	switch j.Job.Result {
	case ResultSucceeded:
		return "completed", "success"
	case ResultCanceled:
		return "completed", "cancelled"
	}
	return "completed", "failure"
}

// Runner returns the name of the runner that has, or had, the job.
func (j RunJob) Runner() string {
	if j.Job.runner == nil {
		return ""
	}
	return j.Job.runner.Name
}

// Person has begun every attempt that names nobody else.
const Person = "octocat"

// Again says who begins another attempt of a run, and whether it has debug logging.
type Again struct {
	Actor string
	Debug bool
}

// Rerun begins another attempt of a run: with the job of that number in the newest attempt, or with all that failed or
// were cancelled if the number is 0. It fails with RunGoesOn, RunExpired, or NotRerunnable if nothing failed or the job
// is of an older attempt.
func (s *State) Rerun(now time.Time, run *Run, id int64, by Again) error {
	status, _ := run.Status()
	switch {
	case status != "completed" && id != 0:
		return refuse(RunGoesOn, "The workflow run containing this job is already running")
	case status != "completed":
		return refuse(RunGoesOn, "This workflow is already running")
	case now.Sub(run.CreatedAt) > rerunFor:
		return refuse(RunExpired, "Unable to retry this workflow run because it was created over a month ago")
	case len(run.attempts) > mostReruns:
		return refuse(RunExpired, "Unable to retry this workflow run because it was re-run too often")
	}
	var carried []*Job
	var again []JobSpec
	for _, job := range run.RunJobs(false) {
		_, conclusion := job.Status()
		if id == job.ID || (id == 0 && conclusion != "success") {
			spec := job.Job.Spec
			spec.Owner, spec.Repository = job.Job.repository(job.Job.set)
			spec.Actor, spec.Debug = by.Actor, by.Debug
			again = append(again, spec)
		} else {
			carried = append(carried, job.Job)
		}
	}
	if len(again) == 0 {
		return refuse(NotRerunnable, "This workflow run cannot be retried")
	}
	s.queueAttempt(now, run, carried, again...)
	return nil
}
