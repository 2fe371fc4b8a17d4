package state

import (
	"time"
)

// Connect is a runner process presenting its JIT config. instance tells a
// repeated request of the same process from a second process, which is refused
// with JITConfigUsed and recorded as an anomaly.
func (s *State) Connect(now time.Time, id int, clientID, instance, version string) (*Runner, error) {
	r, ok := s.runners[id]
	if !ok || r.ClientID != clientID {
		s.anomaly(now, UnknownRunner, nil, nil, "a runner came with credentials that were never given out")
		return nil, refuse(Unauthorized, "The runner's credentials are not valid.")
	}
	if r.instance == instance {
		return r, nil
	}
	if r.instance != "" {
		s.anomaly(now, JITConfigReused, r, r.job, "a second process started with the same JIT config")
		return nil, refuse(JITConfigUsed, "Runner %s has already been started with this JIT config.", r.Name)
	}
	if r.removed {
		return nil, refuse(RunnerRemoved, "The registration of runner %s has been deleted.", r.Name)
	}
	if !s.cfg.HideVersions {
		r.Version = version // which comes with the session, whether the runner gets messages or not
	}
	if s.deprecated["*"] || s.deprecated[version] || (s.enforcing && s.releases.Refuses(version, now)) {
		return nil, refuse(VersionDeprecated, "Runner version %s is deprecated and cannot receive messages.", version)
	}
	r.instance, r.OnlineAt, r.Online = instance, now, true
	s.watchContact(now, r)
	return r, nil
}

// EventKind names what a runner process learns.
type EventKind string

// What can happen to a runner process.
const (
	NoEvent     EventKind = "none"    // ask again
	JobEvent    EventKind = "job"     // a job is yours
	EndEvent    EventKind = "end"     // the steps of your job have ended, and you hold its end
	DoneEvent   EventKind = "done"    // your job is over
	RemoveEvent EventKind = "removed" // your registration is deleted
)

// Event is one of them, with the job concerned.
type Event struct {
	Kind EventKind
	Job  *Job
}

// RunnerByInstance finds the runner of a connected process, removed or not.
func (s *State) RunnerByInstance(id int, instance string) (*Runner, error) {
	r, ok := s.runners[id]
	if !ok || instance == "" || r.instance != instance {
		return nil, refuse(Unauthorized, "The runner is not connected.")
	}
	return r, nil
}

// StartWait marks a runner process as present, until EndWait; it is given a job
// as soon as one is assigned to its set.
func (s *State) StartWait(now time.Time, r *Runner) {
	r.polls++
	r.contact++
	if r.removed {
		return
	}
	r.Online = true
	s.finishIfDue(now, r)
	if r.job == nil && !r.finished && r.polls == 1 {
		r.Set.idle = append(r.Set.idle, r)
		s.startNext(now, r.Set)
	}
}

// Look returns the news for a waiting runner. knowsJob is set if the process has taken its job already, and knowsEnd if
// it knows of the end of its steps: neither is news then.
func (s *State) Look(r *Runner, knowsJob, knowsEnd bool) Event {
	switch {
	case r.lastJob != nil:
		return Event{Kind: DoneEvent, Job: r.lastJob}
	case r.removed && !r.untold:
		return Event{Kind: RemoveEvent}
	case r.job != nil && !knowsJob:
		return Event{Kind: JobEvent, Job: r.job}
	case r.job != nil && r.stepsEnd && r.holdsEnd && !knowsEnd:
		return Event{Kind: EndEvent, Job: r.job}
	}
	return Event{Kind: NoEvent}
}

// Wake is the channel that receives when Look may have something new.
func (r *Runner) Wake() <-chan struct{} { return r.wake }

// EndWait must follow every StartWait. From then on the runner is out of touch
// and gets no job; when that lasts too long it counts as lost.
func (s *State) EndWait(now time.Time, r *Runner) {
	r.polls--
	if r.polls > 0 {
		signal(r.wake) // what woke this request may have been meant for the other
		return
	}
	r.Set.idle = without(r.Set.idle, r)
	s.watchContact(now, r)
}

func (s *State) watchContact(now time.Time, r *Runner) {
	contact := r.contact
	s.after(now.Add(s.cfg.RunnerLostAfter), func(now time.Time) {
		if r.contact != contact || r.polls > 0 || r.removed {
			return
		}
		r.Online = false
		if r.job != nil {
			s.anomaly(now, RunnerLostBusy, r, r.job, "the runner lost touch while its job was running")
			s.complete(now, r.job, ResultFailed)
		}
	})
}

// Leave is a runner process ending because it was told to. Its job, if any, is
// canceled; an idle one goes offline and stays registered.
func (s *State) Leave(now time.Time, r *Runner) {
	r.Online = false
	r.Set.idle = without(r.Set.idle, r)
	if r.job == nil {
		return
	}
	s.anomaly(now, RunnerStoppedBusy, r, r.job, "the runner was terminated while its job was running")
	s.complete(now, r.job, ResultCanceled)
}
