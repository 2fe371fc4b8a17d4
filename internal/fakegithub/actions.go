package fakegithub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// maxJobs limits the jobs that one call queues; they all stay in memory.
const maxJobs = 100_000

// JobRequest asks for jobs.
type JobRequest struct {
	// Count defaults to 1.
	Count int `json:"count,omitempty"`
	// ScaleSet, if set, is one more label; with Labels it is the runs-on of the jobs.
	ScaleSet string   `json:"scaleSet,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	// A job runs for Duration; or for one of Durations, taken in turn; or for a random time between MinDuration and
	// MaxDuration. Without any of them it takes no time at all.
	Duration    Duration   `json:"duration,omitempty"`
	Durations   []Duration `json:"durations,omitempty"`
	MinDuration Duration   `json:"minDuration,omitempty"`
	MaxDuration Duration   `json:"maxDuration,omitempty"`
	// Result defaults to succeeded.
	Result string `json:"result,omitempty"`
	// Name, Event, WorkflowRef are free text; Owner and Repository also limit which
	// scopes may run the jobs.
	Name        string `json:"name,omitempty"`
	Owner       string `json:"owner,omitempty"`
	Repository  string `json:"repository,omitempty"`
	WorkflowRef string `json:"workflowRef,omitempty"`
	// Commit is that of the workflow run; default one of its own. HeadRepository is where it is; default the repository.
	Commit         string `json:"commit,omitempty"`
	HeadRepository string `json:"headRepository,omitempty"`
	Event          string `json:"event,omitempty"`
	// FailFast has GitHub cancel the other jobs when one fails, as in a matrix.
	FailFast bool `json:"failFast,omitempty"`
}

func (q *JobRequest) validate() error {
	setDefault(&q.Count, 1)
	if q.Count < 1 || q.Count > maxJobs {
		return fmt.Errorf("count %d is not between 1 and %d", q.Count, maxJobs)
	}
	if q.ScaleSet == "" && len(q.Labels) == 0 {
		return errors.New("scaleSet or labels must say who shall run the jobs")
	}
	if q.Duration < 0 || q.MinDuration < 0 || (q.MaxDuration != 0 && q.MaxDuration < q.MinDuration) {
		return errors.New("durations must not be negative, and maxDuration not below minDuration")
	}
	for _, d := range q.Durations {
		if d < 0 {
			return fmt.Errorf("duration %s is negative", time.Duration(d))
		}
	}
	return nil
}

// duration returns the time for which the i-th job runs.
func (q *JobRequest) duration(i int, random *rand.Rand) time.Duration {
	switch {
	case len(q.Durations) > 0:
		return time.Duration(q.Durations[i%len(q.Durations)])
	case q.MaxDuration > 0:
		return time.Duration(q.MinDuration) + time.Duration(random.Int64N(int64(q.MaxDuration-q.MinDuration)+1))
	}
	return time.Duration(q.Duration)
}

func (q *JobRequest) spec() state.JobSpec {
	spec := state.JobSpec{
		Result: q.Result, Name: q.Name, Event: q.Event,
		Owner: q.Owner, Repository: q.Repository, WorkflowRef: q.WorkflowRef, Commit: q.Commit,
		HeadRepository: q.HeadRepository, FailFast: q.FailFast,
	}
	if q.ScaleSet != "" {
		spec.Labels = append(spec.Labels, q.ScaleSet)
	}
	spec.Labels = append(spec.Labels, q.Labels...)
	return spec
}

// QueueJobs queues jobs at this moment and returns their request ids.
func (s *Server) QueueJobs(q JobRequest) ([]int64, error) {
	if err := q.validate(); err != nil {
		return nil, fmt.Errorf("queue jobs: %w", err)
	}
	ids := make([]int64, 0, q.Count)
	s.do(func(now time.Time) {
		specs := make([]state.JobSpec, q.Count)
		for i := range specs {
			specs[i] = q.spec()
			specs[i].Duration = q.duration(i, s.random)
		}
		for _, job := range s.state.QueueJobs(now, specs...) {
			ids = append(ids, job.RequestID)
		}
	})
	return ids, nil
}

// Jobs returns all jobs ever queued, oldest first, or those in one state.
func (s *Server) Jobs(in JobState) (jobs []Job) {
	s.do(func(time.Time) { jobs = s.state.Jobs(in) })
	return jobs
}

// CancelJob cancels a job that is not completed, as a user would. It fails for
// an unknown or completed one.
func (s *Server) CancelJob(requestID int64) (err error) {
	s.do(func(now time.Time) { err = s.state.CancelJob(now, requestID) })
	return err
}

// CancelRun cancels what goes on of a workflow run, as a person does.
func (s *Server) CancelRun(run int64) (err error) {
	s.do(func(now time.Time) { err = s.state.CancelRun(now, run) })
	return err
}

// EndJobs lets every running job come to its end now, with the result it was queued with: so a job can last until
// something has happened to its runner.
func (s *Server) EndJobs() { s.do(s.state.EndJobs) }

// Snapshot describes everything as it is now.
func (s *Server) Snapshot() (snapshot Snapshot) {
	s.do(func(time.Time) { snapshot = s.state.Snapshot() })
	return snapshot
}

// Registrations returns all registrations of runners that there ever were, in the order of their making.
func (s *Server) Registrations() (registrations []Registration) {
	s.do(func(time.Time) { registrations = s.state.Registrations() })
	return registrations
}

// Anomalies returns the events that no correct controller causes; tests want none.
func (s *Server) Anomalies() (anomalies []Anomaly) {
	s.do(func(time.Time) { anomalies = s.state.Anomalies() })
	return anomalies
}

// AddRunnerGroup creates a runner group and returns its id.
func (s *Server) AddRunnerGroup(name string) (id int) {
	s.do(func(time.Time) { id = s.state.AddRunnerGroup(name).ID })
	return id
}

// ExpireAdminTokens makes the admin tokens given out so far worthless, although
// their exp says otherwise.
func (s *Server) ExpireAdminTokens() {
	s.do(func(time.Time) { s.tokens.epoch++ })
}

// RevokePAT makes the REST API refuse a token; with revoked false it is accepted again.
func (s *Server) RevokePAT(token string, revoked bool) {
	s.do(func(time.Time) { s.tokens.revoked[token] = revoked })
}

// ExpireQueueTokens makes the queue tokens given out so far worthless; sessions live on.
func (s *Server) ExpireQueueTokens() {
	s.do(func(time.Time) { s.state.ExpireQueueTokens() })
}

// EvictSessions ends the session of a scale set, or all with an id of 0, and returns the number of sessions that it
// ended.
func (s *Server) EvictSessions(scaleSetID int) (evicted int) {
	s.do(func(time.Time) { evicted = s.state.EvictSessions(scaleSetID) })
	return evicted
}

// DeleteScaleSet deletes a scale set behind its client's back.
func (s *Server) DeleteScaleSet(id int) (err error) {
	s.do(func(now time.Time) { err = s.state.DeleteScaleSet(now, nil, id, false) })
	return err
}

// RemoveRunner deletes an idle runner behind its client's back.
func (s *Server) RemoveRunner(id int) (err error) {
	s.do(func(time.Time) { err = s.state.RemoveRunner(nil, id) })
	return err
}

// ForgetRunner loses the registration of an idle runner, whose process waits on.
func (s *Server) ForgetRunner(id int) (err error) {
	s.do(func(time.Time) { err = s.state.ForgetRunner(id) })
	return err
}

// CountPhantoms makes the statistics of a scale set count as many assigned jobs more than there are.
func (s *Server) CountPhantoms(scaleSetID, jobs int) (err error) {
	s.do(func(time.Time) { err = s.state.CountPhantoms(scaleSetID, jobs) })
	return err
}

// MoveService gives the Actions service a new address: the old one answers 404,
// and the next registration tells the new one.
func (s *Server) MoveService() {
	s.do(func(time.Time) { s.tokens.generation++ })
}

// DeprecateRunnerVersion makes runners of a version, or all with "*", end as
// outdated; with deprecated false they are welcome again.
func (s *Server) DeprecateRunnerVersion(version string, deprecated bool) {
	s.do(func(time.Time) { s.state.DeprecateVersion(version, deprecated) })
}

// ReleaseRunner has GitHub release another version of the runner, beside those of its table.
func (s *Server) ReleaseRunner(version string, published time.Time) {
	s.do(func(time.Time) { s.state.Release(version, published) })
}

// EnforceRunnerVersions makes the fake refuse runners by the rules that GitHub has announced for 2026, its table of
// releases and its clock: those before 2.329.0, and others 30 days after the next release. With on false it takes all.
func (s *Server) EnforceRunnerVersions(on bool) {
	s.do(func(time.Time) { s.state.EnforceVersions(on) })
}

// SetPermissions changes what the Apps' installations may do, for the tokens that are made from now on; nil is
// everything.
func (s *Server) SetPermissions(permissions map[string]string) {
	s.do(func(time.Time) { s.tokens.permissions = permissions })
}

// CheckRuns returns all check runs, in the order of their making.
func (s *Server) CheckRuns() (checks []CheckRun) {
	s.do(func(time.Time) { checks = s.checks.All() })
	return checks
}
