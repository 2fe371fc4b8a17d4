package listener

import (
	"maps"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// assignmentExpiresAfter is how long a message that shows a job to be assigned outweighs statistics that do not count the
	// job yet. By then the service's counters have caught up.
	assignmentExpiresAfter = 5 * time.Second
	// maxAssignmentAge is how old an assignment may be to count. Older assignments are redelivered after a listener was killed, and
	// statistics have long counted them. A clock may differ from GitHub's by less than that. If ours is farther ahead, only
	// statistics count, which are late by one message at most.
	maxAssignmentAge = time.Minute
	// startExpiresAfter is how long a job is remembered as started. An assignment of it that comes later, in a message that was
	// overtaken or redelivered, is an old one.
	startExpiresAfter = time.Minute
	// maxStarted bounds the memory for started jobs to 1 MB, at about 100 bytes each.
	maxStarted = 10_000
	// acquisitionExpiresAfter is how long an acquired job takes up room while no message shows it to be assigned. The service
	// assigns a job within seconds; if it has not, the job was canceled or given to somebody else.
	acquisitionExpiresAfter = time.Minute
	// reservedPatchIDs is more than the evaluations in the 3 s during which a report may carry a patchID that is not published
	// yet. A new process skips that many, so that it uses no patchID that its predecessor has used in a report.
	reservedPatchIDs = 1000
)

// Results of jobs. One that was canceled was so by a user or by GitHub.
const (
	resultSucceeded = "succeeded"
	resultCanceled  = "canceled"
)

// Desired is what the listener asks the EphemeralRunnerSet for. Replicas is how many runners there should be, PatchID numbers the
// statistics from which that follows, and AssignedJobs is how many jobs they count.
type Desired struct {
	Replicas, PatchID, AssignedJobs int
}

// scaler computes how many runners there should be from GitHub's statistics and messages. It has state, but no side effects.
type scaler struct {
	minRunners, maxRunners int
	// doubted is how many of the assigned jobs the manager believes not to exist. They count in what is published, from which the
	// manager decides, but take up no room.
	doubted int
	// desired is the last evaluation.
	desired    Desired
	statistics actions.Statistics
	// statisticsAt is when statistics came, zero before the first.
	statisticsAt time.Time
	// assigned holds the jobs that a message showed to be assigned, and none to be started, with the time of the message.
	assigned map[jobKey]time.Time
	// started holds the jobs that a message showed to be started or completed, with the time of the message.
	started map[jobKey]time.Time
	// acquired holds the jobs that were acquired and that no message has shown to be assigned.
	acquired map[jobKey]acquisition
	// unclear is how many jobs were requested at patchID and missing in the answer. They may still be ours, by an earlier answer
	// that was lost. The next statistics will show.
	unclear struct {
		jobs, patchID int
		askedAt       time.Time
	}
}

// jobKey identifies a job by its request ID, or by its own ID if GitHub assigns jobs by itself and sends the request ID 0.
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

// acquisition is when a job was acquired, and the patchID of the statistics then.
type acquisition struct {
	acquiredAt time.Time
	patchID    int
}

// expiresAt returns when the job no longer takes up room.
func (a acquisition) expiresAt() time.Time { return a.acquiredAt.Add(acquisitionExpiresAfter) }

// newScaler returns a scaler that continues after published, the patchID that the API server has.
func newScaler(minRunners, maxRunners, published int) *scaler {
	return &scaler{
		minRunners: minRunners, maxRunners: maxRunners,
		desired:  Desired{PatchID: published + reservedPatchIDs},
		assigned: map[jobKey]time.Time{}, started: map[jobKey]time.Time{}, acquired: map[jobKey]acquisition{},
	}
}

// known reports whether there were statistics. Without them the desired count is unknown.
func (s *scaler) known() bool { return !s.statisticsAt.IsZero() }

// observe evaluates new statistics. nil, from a service that sends none, stands for the last ones. The patchID grows: to the
// EphemeralRunnerSet this means that replicas accounts for the ends of jobs that it saw a while ago.
func (s *scaler) observe(statistics *actions.Statistics, now time.Time) {
	if statistics != nil {
		s.statistics = *statistics
	}
	s.statisticsAt = now
	s.desired.PatchID++
	s.evaluate(now)
}

// evaluate applies new limits or acquisitions to the last statistics. The patchID stays the same: it must not promise more than
// these statistics account for.
func (s *scaler) evaluate(now time.Time) {
	maps.DeleteFunc(s.assigned, func(_ jobKey, at time.Time) bool { return now.Sub(at) > assignmentExpiresAfter })
	maps.DeleteFunc(s.started, func(_ jobKey, at time.Time) bool { return now.Sub(at) > startExpiresAfter })
	s.expireAcquisitions(now)
	jobs := s.jobs()
	for _, acquired := range s.acquired {
		if acquired.patchID == s.desired.PatchID {
			jobs++
		}
	}
	s.desired.AssignedJobs = jobs
	s.desired.Replicas = min(s.minRunners+min(jobs, s.maxRunners), s.maxRunners) // can't overflow, whatever GitHub sends
}

// jobs returns how many jobs are assigned, at least as many as recent messages have shown.
func (s *scaler) jobs() int { return max(s.statistics.TotalAssignedJobs, len(s.assigned), 0) }

// remember notes which jobs a message shows to be assigned, started or completed.
func (s *scaler) remember(message *actions.Message, now time.Time) {
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
		}
	}
}

// start notes that a job has started, or ended, and so does not wait any longer.
func (s *scaler) start(job jobKey, now time.Time) {
	delete(s.assigned, job)
	delete(s.acquired, job)
	if job != (jobKey{}) && len(s.started) < maxStarted {
		s.started[job] = now
	}
}

// acquire counts the jobs requestIDs until statistics count them. They were just acquired, out of as many requested jobs as asked
// says.
func (s *scaler) acquire(asked int, requestIDs []int64, now time.Time) {
	if s.unclear.patchID != s.desired.PatchID {
		s.unclear.jobs, s.unclear.patchID = 0, s.desired.PatchID
	}
	if left := asked - len(requestIDs); left > 0 {
		s.unclear.jobs += left
		s.unclear.askedAt = now
	}
	for _, id := range requestIDs {
		job := jobKey{requestID: id}
		_, assigned := s.assigned[job] // messages may overtake the answer
		if _, started := s.started[job]; !assigned && !started {
			s.acquired[job] = acquisition{now, s.desired.PatchID}
		}
	}
	s.evaluate(now)
}

// expireAcquisitions forgets the acquired jobs that have taken up room for too long, and returns when the next one will have, zero
// if there is none.
func (s *scaler) expireAcquisitions(now time.Time) (next time.Time) {
	maps.DeleteFunc(s.acquired, func(_ jobKey, a acquisition) bool { return !now.Before(a.expiresAt()) })
	for _, acquired := range s.acquired {
		if at := acquired.expiresAt(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// awaits reports whether jobs were requested that the last statistics may not count, so that these can't pass for current ones.
func (s *scaler) awaits(now time.Time) bool {
	for _, acquired := range s.acquired {
		if now.Before(acquired.expiresAt()) {
			return true
		}
	}
	return s.unclearJobs() > 0 && now.Sub(s.unclear.askedAt) <= acquisitionExpiresAfter
}

// has reports whether recent messages and answers have shown that a job was acquired or assigned, or has started since.
func (s *scaler) has(requestID int64) bool {
	job := jobKey{requestID: requestID}
	_, acquired := s.acquired[job]
	_, assigned := s.assigned[job]
	_, started := s.started[job]
	return acquired || assigned || started
}

// unclearJobs returns how many jobs of unclear ownership the last statistics may not count.
func (s *scaler) unclearJobs() int {
	if s.unclear.patchID != s.desired.PatchID {
		return 0
	}
	return s.unclear.jobs
}

// room returns how many more jobs may be acquired before capacity is reached. It may be negative. GitHub does not document whether
// its count of acquired jobs includes assigned ones: if it does, the difference is right; if not, it is too low.
func (s *scaler) room(capacity int) int {
	unassigned := s.statistics.TotalAcquiredJobs - s.statistics.TotalAssignedJobs
	believed := max(s.statistics.TotalAssignedJobs-max(s.doubted, 0), len(s.assigned), 0)
	return capacity - believed - max(len(s.acquired), unassigned) - s.unclearJobs()
}
