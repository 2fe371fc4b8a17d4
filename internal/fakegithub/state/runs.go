package state

import (
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
}

// RunJob is a job as a part of one attempt. Jobs that an attempt doesn't run again are carried over into it, as they ended.
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

// repository returns the job's owner and repository, by default those of the set that runs it.
func (j *Job) repository(set *ScaleSet) (owner, name string) {
	owner, name = j.Spec.Owner, j.Spec.Repository
	if set != nil {
		setDefault(&owner, set.Scope.Owner)
		setDefault(&name, set.Scope.Repo)
	}
	setDefault(&name, "demo")
	return owner, name
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

// Jobs returns the jobs of the newest attempt, or of all.
func (r *Run) Jobs(ofAll bool) []RunJob {
	if ofAll {
		return slices.Concat(r.attempts...)
	}
	return r.attempts[len(r.attempts)-1]
}

// Status returns status and conclusion of the newest attempt as the REST API names them.
func (r *Run) Status() (status, conclusion string) {
	status, conclusion = "completed", "success"
	for _, job := range r.Jobs(false) {
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

// Rerun begins another attempt of a run: with the job of that number in the newest attempt, or with all that failed or were cancelled if
// the number is 0. It fails with RunGoesOn, RunExpired, or NotRerunnable if nothing failed or the job is of an older attempt.
func (s *State) Rerun(now time.Time, run *Run, id int64) error {
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
	for _, job := range run.Jobs(false) {
		_, conclusion := job.Status()
		if id == job.ID || id == 0 && conclusion != "success" {
			spec := job.Job.Spec
			spec.Owner, spec.Repository = job.Job.repository(job.Job.set)
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
