package state

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/harrier-ci/harrier/internal/fakegithub/releases"
)

// maxRunnerName is the service's limit for runner names, in bytes.
const maxRunnerName = 64

// Runner is the record of one runner. It stays known after its removal, so that
// a late process can be told from an unknown one.
type Runner struct {
	ID           int
	Name         string
	Set          *ScaleSet
	WorkFolder   string
	ClientID     string // the secret in the JIT config
	RegisteredAt time.Time
	OnlineAt     time.Time // zero until the process connects
	RemovedAt    time.Time // zero while it is registered
	Online       bool
	Version      string // as its process has said; empty before it connects

	instance string // the process that used the JIT config
	job      *Job
	lastJob  *Job
	finished bool // ran its job; the record may linger
	removed  bool
	untold   bool // it was removed, and its process does not learn of it
	holdsEnd bool // its process has something to do after the job's steps, and has not reported it yet
	stepsEnd bool // the job's steps have ended
	polls    int  // requests in flight
	contact  int  // counts contacts, so that an old timer sees a new one
	wake     chan struct{}
}

// RegisterRunner makes the record behind a new JIT config. It fails with
// RunnerExists when the name is taken in the scope.
func (s *State) RegisterRunner(now time.Time, scope *Scope, setID int, name, workFolder string) (*Runner, error) {
	set, err := s.ScaleSet(scope, setID)
	if err != nil {
		return nil, err
	}
	if name == "" || len(name) > maxRunnerName {
		return nil, refuse(Invalid, "Runner name must have between 1 and %d characters.", maxRunnerName)
	}
	key := strings.ToLower(name)
	if _, taken := set.Scope.names[key]; taken {
		return nil, refuse(RunnerExists, "Already exists - A runner with the name %s is registered.", name)
	}
	s.lastRunner++
	r := &Runner{
		ID: s.lastRunner, Name: name, Set: set, WorkFolder: workFolder,
		ClientID: uuid.NewString(), RegisteredAt: now, wake: make(chan struct{}, 1),
	}
	s.runners[r.ID] = r
	set.runners[r.ID] = r
	set.Scope.names[key] = r
	return r, nil
}

// Runner returns a registered runner, or fails with RunnerNotFound.
func (s *State) Runner(scope *Scope, id int) (*Runner, error) {
	r, ok := s.runners[id]
	if !ok || r.removed || (scope != nil && r.Set.Scope != scope) {
		return nil, refuse(RunnerNotFound, "No runner found with identifier %d.", id)
	}
	return r, nil
}

// RunnersByName returns the runners of a scope, or the one of that name.
func (s *State) RunnersByName(scope *Scope, name string) []*Runner {
	if r, ok := scope.names[strings.ToLower(name)]; ok {
		return []*Runner{r}
	}
	found := []*Runner{}
	for _, r := range scope.names {
		if name == "" {
			found = append(found, r)
		}
	}
	return found
}

// RemoveRunner deletes a registration. A busy runner, or one whose finished
// record lingers, is refused with JobStillRunning. Removing an unknown one is
// a success, unless configured otherwise.
func (s *State) RemoveRunner(scope *Scope, id int) error {
	r, err := s.Runner(scope, id)
	if err != nil {
		if s.cfg.RemoveUnknown404 {
			return err
		}
		return nil
	}
	if r.Busy() {
		return refuse(JobStillRunning, "Runner %s is currently running a job and cannot be deleted.", r.Name)
	}
	s.forget(r)
	return nil
}

// ForgetRunner loses the registration of an idle runner. Unlike after a removal, its process doesn't learn of it and
// waits on.
func (s *State) ForgetRunner(id int) error {
	r, err := s.Runner(nil, id)
	if err != nil {
		return err
	}
	if err := s.RemoveRunner(nil, id); err != nil {
		return err
	}
	r.untold = true
	return nil
}

// Busy tells whether the service would call the runner busy.
func (r *Runner) Busy() bool { return r.job != nil || r.finished }

// forget ends a registration; a waiting process learns of it.
func (s *State) forget(r *Runner) {
	if r.removed {
		return
	}
	r.removed, r.Online, r.RemovedAt = true, false, s.now
	delete(r.Set.runners, r.ID)
	delete(r.Set.Scope.names, strings.ToLower(r.Name))
	r.Set.idle = without(r.Set.idle, r)
	signal(r.wake)
}

// finish ends the life of a runner after its job.
func (s *State) finish(now time.Time, r *Runner) {
	r.lastJob, r.job, r.finished = r.job, nil, true
	signal(r.wake)
	if s.cfg.RunnerLinger <= 0 {
		s.forget(r)
		return
	}
	s.after(now.Add(s.cfg.RunnerLinger), func(time.Time) { s.forget(r) })
}

// DeprecateVersion makes runners of that version be refused, "*" all of them;
// on false takes it back.
func (s *State) DeprecateVersion(version string, on bool) {
	if on {
		s.deprecated[version] = true
	} else {
		delete(s.deprecated, version)
	}
}

// Release has GitHub release another version of the runner.
func (s *State) Release(version string, published time.Time) {
	s.releases = s.releases.With(version, published)
}

// Releases are those that had come by a time.
func (s *State) Releases(now time.Time) releases.List { return s.releases.Until(now) }

// EnforceVersions makes versions be refused by GitHub's rules and the time, or no longer.
func (s *State) EnforceVersions(on bool) { s.enforcing = on }

// HoldEnd keeps the job of a runner that has just connected from ending after its steps until Report says that its
// process is done.
func (s *State) HoldEnd(r *Runner) { r.holdsEnd = true }

// Step is a step of a job that a runner adds by itself, as its process has reported it.
type Step struct {
	Name    string `json:"name"`
	Log     string `json:"log,omitempty"`
	Summary string `json:"summary,omitempty"`
	// Failed steps fail the job.
	Failed bool `json:"failed,omitempty"`
}

// Report notes such a step of a runner's job. After the last one nothing keeps the job from ending any more.
func (s *State) Report(now time.Time, r *Runner, step Step, last bool) {
	job := r.job
	if job == nil {
		job = r.lastJob
	}
	if job == nil {
		return
	}
	same := func(other Step) bool { return other.Name == step.Name }
	job.Steps = append(slices.DeleteFunc(job.Steps, same), step) // a repeated request repeats nothing
	if step.Failed {
		job.Spec.Result = ResultFailed
	}
	if last {
		r.holdsEnd = false
		s.finishIfDue(now, r)
	}
}
