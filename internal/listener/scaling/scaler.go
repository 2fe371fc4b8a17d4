// Package scaling computes from GitHub's statistics and messages the number of assigned jobs, the number of runners that
// the listener asks for by them, the number of further jobs that there is room for, and the figures that don't fit
// together. It has state, but no side effects
// and no clock.
package scaling

import (
	"maps"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
)

const (
	// A message that shows a job to be assigned outweighs statistics that do not count the job yet until
	// assignmentTimeout. By then the service's counters have caught up.
	assignmentTimeout = 5 * time.Second
	// An assignment counts if it is at most maxAssignmentAge old. Older assignments are redelivered after a listener
	// was killed, and statistics have long counted them. A clock may differ from GitHub's by less than that. If ours is
	// farther ahead, only statistics count, which are late by one message at most.
	maxAssignmentAge = time.Minute
	// A job is remembered as started until startedTimeout. An assignment of it that comes after the start, in a
	// message that was overtaken or redelivered, is an old one.
	startedTimeout = time.Minute
	// maxStarted bounds the memory for started jobs to 1 MB, at about 100 bytes each.
	maxStarted = 10_000
	// An acquired job that no message shows to be assigned counts until AcquisitionTimeout. The service assigns a job
	// within seconds; if it has not, the job was canceled or given to somebody else.
	AcquisitionTimeout = time.Minute
	// ReservedPatchIDs is more than the evaluations in the 3 s during which a report may carry a patchID that is not
	// published yet. A new process skips that many, so that it uses no patchID that its predecessor has used in a
	// report.
	ReservedPatchIDs = 1000
)

// resultCanceled is the result of a job that a user or GitHub has canceled.
const resultCanceled = "canceled"

// Scaler computes the number of runners that there should be from GitHub's statistics and messages.
type Scaler struct {
	MinRunners, MaxRunners int
	// Doubted counts the assigned jobs that the manager believes not to exist. They count in what is published, from
	// which the manager decides, but leave room for others.
	Doubted int
	// Desired is the last evaluation.
	Desired    cluster.Desired
	Statistics actions.Statistics
	// StatisticsAt is the time at which Statistics came, zero before the first.
	StatisticsAt time.Time
	// assigned holds the jobs that a message showed to be assigned, and none to be started, with the time of the
	// message.
	assigned map[jobKey]time.Time
	// started holds the jobs that a message showed to be started or completed, with the time of the message.
	started map[jobKey]time.Time
	// acquired holds the jobs that were acquired and that no message has shown to be assigned.
	acquired map[jobKey]acquisition
	// unclear counts the jobs that were requested at patchID and missing in the answer. They may still be ours, by an
	// earlier answer that was lost. The next statistics will show.
	unclear struct {
		jobs, patchID int
		askedAt       time.Time
	}
}

// jobKey identifies a job by its request ID, or by its own ID if GitHub assigns jobs by itself and sends the request ID
// 0.
type jobKey struct {
	requestID int64
	jobID     string
}

func keyOf(job *actions.JobMessageBase) jobKey {
	if job.RunnerRequestID != 0 {
		return jobKey{requestID: job.RunnerRequestID}
	}
	return jobKey{jobID: job.JobID}
}

// acquisition has the time at which a job was acquired, and the patchID of the statistics then.
type acquisition struct {
	acquiredAt time.Time
	patchID    int
}

// expiresAt returns the time from which the job no longer counts.
func (a acquisition) expiresAt() time.Time { return a.acquiredAt.Add(AcquisitionTimeout) }

// New returns a scaler that continues after published, the patchID that the API server has.
func New(minRunners, maxRunners, published int) *Scaler {
	return &Scaler{
		MinRunners: minRunners, MaxRunners: maxRunners,
		Desired:  cluster.Desired{PatchID: published + ReservedPatchIDs},
		assigned: map[jobKey]time.Time{}, started: map[jobKey]time.Time{}, acquired: map[jobKey]acquisition{},
	}
}

// Known reports whether there were statistics. Without them there is nothing to ask for.
func (s *Scaler) Known() bool { return !s.StatisticsAt.IsZero() }

// Observe evaluates new statistics. nil, from a service that sends none, stands for the last ones. The patchID grows:
// to the EphemeralRunnerSet this means that replicas accounts for the ends of jobs that it saw a while ago.
func (s *Scaler) Observe(statistics *actions.Statistics, now time.Time) {
	if statistics != nil {
		s.Statistics = *statistics
	}
	s.StatisticsAt = now
	s.Desired.PatchID++
	s.Evaluate(now)
}

// Evaluate applies new limits or acquisitions to the last statistics. The patchID stays the same: it must not promise
// more than these statistics account for.
func (s *Scaler) Evaluate(now time.Time) {
	maps.DeleteFunc(s.assigned, func(_ jobKey, at time.Time) bool { return now.Sub(at) > assignmentTimeout })
	maps.DeleteFunc(s.started, func(_ jobKey, at time.Time) bool { return now.Sub(at) > startedTimeout })
	s.ExpireAcquisitions(now)
	jobs := s.jobs()
	for _, acquired := range s.acquired {
		if acquired.patchID == s.Desired.PatchID {
			jobs++
		}
	}
	s.Desired.AssignedJobs = jobs
	// What ARC's runner set would follow; ours decides from the jobs. Can't overflow, whatever GitHub sends.
	s.Desired.Replicas = min(s.MinRunners+min(jobs, s.MaxRunners), s.MaxRunners)
}

// jobs returns the number of assigned jobs, at least as many as recent messages have shown.
func (s *Scaler) jobs() int { return max(s.Statistics.TotalAssignedJobs, len(s.assigned), 0) }

// Remember takes in which jobs a message shows to be assigned, started or completed.
func (s *Scaler) Remember(message *actions.Message, now time.Time) {
	for _, job := range message.JobsAssigned {
		key := keyOf(&job.JobMessageBase)
		_, started := s.started[key]
		if !started && (job.ScaleSetAssignTime.IsZero() || now.Sub(job.ScaleSetAssignTime) < maxAssignmentAge) {
			s.assigned[key] = now
		}
		delete(s.acquired, key)
	}
	for _, job := range message.JobsStarted {
		s.start(keyOf(&job.JobMessageBase), now)
	}
	for _, job := range message.JobsCompleted {
		key := keyOf(&job.JobMessageBase)
		s.start(key, now)
		if job.Result == resultCanceled {
			delete(s.started, key) // a job that no runner took in time is canceled and then assigned again
			if job.RunnerID == 0 && job.RunnerName == "" {
				s.Desired.CanceledJobs++ // in a message that comes again in a new session, once more, which does no harm
			}
		}
	}
}

// start remembers that a job has started, or ended, and so does not wait any longer.
func (s *Scaler) start(job jobKey, now time.Time) {
	delete(s.assigned, job)
	delete(s.acquired, job)
	if job != (jobKey{}) && len(s.started) < maxStarted {
		s.started[job] = now
	}
}

// Acquire counts the jobs requestIDs until statistics count them. They were just acquired, out of as many requested
// jobs as asked says.
func (s *Scaler) Acquire(asked int, requestIDs []int64, now time.Time) {
	if s.unclear.patchID != s.Desired.PatchID {
		s.unclear.jobs, s.unclear.patchID = 0, s.Desired.PatchID
	}
	if left := asked - len(requestIDs); left > 0 {
		s.unclear.jobs += left
		s.unclear.askedAt = now
	}
	for _, id := range requestIDs {
		job := jobKey{requestID: id}
		_, assigned := s.assigned[job] // messages may overtake the answer
		if _, started := s.started[job]; !assigned && !started {
			s.acquired[job] = acquisition{now, s.Desired.PatchID}
		}
	}
	s.Evaluate(now)
}

// ExpireAcquisitions forgets the acquired jobs that no message has shown to be assigned in time, and returns the
// end of the next one's time, zero if there is none.
func (s *Scaler) ExpireAcquisitions(now time.Time) (next time.Time) {
	maps.DeleteFunc(s.acquired, func(_ jobKey, a acquisition) bool { return !now.Before(a.expiresAt()) })
	for _, acquired := range s.acquired {
		if at := acquired.expiresAt(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Awaits reports whether jobs were requested that the last statistics may not count, so that these can't pass for
// current ones.
func (s *Scaler) Awaits(now time.Time) bool {
	for _, acquired := range s.acquired {
		if now.Before(acquired.expiresAt()) {
			return true
		}
	}
	return s.unclearJobs() > 0 && now.Sub(s.unclear.askedAt) <= AcquisitionTimeout
}

// Has reports whether recent messages and answers have shown that a job was acquired or assigned, or has started since.
func (s *Scaler) Has(requestID int64) bool {
	job := jobKey{requestID: requestID}
	_, acquired := s.acquired[job]
	_, assigned := s.assigned[job]
	_, started := s.started[job]
	return acquired || assigned || started
}

// unclearJobs returns the number of jobs of unclear ownership that the last statistics may not count.
func (s *Scaler) unclearJobs() int {
	if s.unclear.patchID != s.Desired.PatchID {
		return 0
	}
	return s.unclear.jobs
}

// Room returns the number of jobs that may still be acquired before capacity is reached. It may be negative. GitHub
// does not document whether its count of acquired jobs includes assigned ones: if it does, the difference is right; if
// not, it is too low.
func (s *Scaler) Room(capacity int) int {
	unassigned := s.Statistics.TotalAcquiredJobs - s.Statistics.TotalAssignedJobs
	believed := max(s.Statistics.TotalAssignedJobs-max(s.Doubted, 0), len(s.assigned), 0)
	return capacity - believed - max(len(s.acquired), unassigned) - s.unclearJobs()
}
