package state

import (
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"
	"time"
)

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
	// cancelled is the newest attempt that a person has cancelled as a whole, 0 if none.
	cancelled int
}

// RunJob is a job as a part of one attempt. Jobs that an attempt doesn't run again are carried over into it, as they
// ended.
type RunJob struct {
	// ID is the job's number in the REST API, another one in each attempt.
	ID      int64
	Attempt int
	Job     *Job
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

// failFast cancels the other jobs of a matrix when one has failed.
func (s *State) failFast(now time.Time, failed *Job) {
	run := s.runs[failed.RunID]
	if !failed.Spec.FailFast || failed.Result != ResultFailed || run == nil {
		return
	}
	for _, job := range run.RunJobs(false) {
		if other := job.Job; other.Spec.FailFast && other.State != Completed {
			s.complete(now, other, ResultCanceled)
		}
	}
}

// CancelRun cancels what goes on of a run, as a person does, or fails with RunNotFound.
func (s *State) CancelRun(now time.Time, id int64) error {
	run := s.runs[id]
	if run == nil {
		return refuse(RunNotFound, "Not Found")
	}
	for _, job := range run.RunJobs(false) {
		if job.Job.State != Completed {
			run.cancelled = run.Attempt()
			s.complete(now, job.Job, ResultCanceled)
		}
	}
	return nil
}

// Origin says what a run is of: a workflow, and whatever began it.
type Origin struct {
	// Workflow is the name of the workflow, which is that of its file, and WorkflowID a number for it.
	Workflow   string
	WorkflowID int64
	Branch     string
	Event      string
	Commit     string
	// HeadRepository is OWNER/NAME of the repository with the commit: a fork's for its pull requests.
	HeadRepository string
}

// Origin returns what the run is of.
func (r *Run) Origin() Origin {
	first := r.attempts[0][0].Job
	owner, name := first.repository(first.set)
	reference := first.Spec.WorkflowRef
	setDefault(&reference, defaultWorkflow(owner, name))
	file, branch, _ := strings.Cut(reference, "@")
	o := Origin{
		Workflow: strings.TrimSuffix(path.Base(file), path.Ext(file)), WorkflowID: int64(crc32.ChecksumIEEE([]byte(file))),
		Branch: strings.TrimPrefix(branch, "refs/heads/"), Event: first.Spec.Event, Commit: first.Spec.Commit,
		HeadRepository: first.Spec.HeadRepository,
	}
	setDefault(&o.Commit, fmt.Sprintf("%040x", r.ID))
	setDefault(&o.HeadRepository, owner+"/"+name)
	return o
}

func defaultWorkflow(owner, repository string) string {
	return owner + "/" + repository + "/.github/workflows/ci.yaml@refs/heads/main"
}

// RunsOf returns the runs of a workflow in a repository, the newest first.
func (s *State) RunsOf(owner, repository string, workflow int64) (runs []*Run) {
	for id := s.lastRun; id > 0; id-- {
		if run, err := s.Run(owner, repository, id); err == nil && run.Origin().WorkflowID == workflow {
			runs = append(runs, run)
		}
	}
	return runs
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
	switch {
	case status != "completed":
		conclusion = ""
	case r.cancelled == r.Attempt():
		conclusion = "cancelled"
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
		if id == job.ID || (id == 0 && conclusion != "success" && (conclusion != "cancelled" || !s.cfg.RerunsOnlyFailed)) {
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
