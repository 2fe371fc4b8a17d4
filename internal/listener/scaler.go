package listener

import (
	"maps"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// assignmentMemory is how long a message's word that a job is assigned outweighs statistics that do not count it
	// yet: the service's counters are caught up by then.
	assignmentMemory = 5 * time.Second
	// freshAssignment is how old an assignment may be to be news: older ones come again after a listener was killed, and
	// statistics count them long since. It allows for clocks that differ from GitHub's by less than that; where ours is
	// farther ahead, statistics alone decide, which is late by one message at most.
	freshAssignment = time.Minute
	// acquisitionMemory is how long an acquired job takes up room without being reported assigned. The service assigns
	// within seconds; later the job was cancelled or given to someone else.
	acquisitionMemory = time.Minute
	// numbersGivenAway is more than the evaluations of the 3 s in which a patchID may be in a report and not yet in
	// the API server. A new process skips as many, so that none of its numbers is one that its predecessor gave away.
	numbersGivenAway = 1000
)

// Desired is what the listener tells the EphemeralRunnerSet.
type Desired struct {
	Replicas, PatchID, AssignedJobs int
}

// scaler turns what GitHub says into how many runners there should be. It is pure but for what it remembers.
type scaler struct {
	minRunners, maxRunners int
	// desired is the last evaluation.
	desired    Desired
	statistics actions.Statistics
	// statisticsAt is when they came, zero before the first.
	statisticsAt time.Time
	// assigned holds when messages showed jobs to be assigned that have not started, acquired what we acquired and no
	// message showed to be assigned yet.
	assigned map[jobKey]time.Time
	acquired map[jobKey]acquisition
	// unclear is how many jobs were asked for at the patchID in it and left out of the answer: they may be ours nevertheless,
	// by an answer that was lost, and statistics will say.
	unclear struct{ jobs, patchID int }
}

// jobKey tells jobs apart: by the request id, or by the job's own id where GitHub assigns jobs by itself and sends 0.
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
	at      time.Time
	patchID int
}

// newScaler continues after published, the patchID in the API server.
func newScaler(minRunners, maxRunners, published int) *scaler {
	return &scaler{
		minRunners: minRunners, maxRunners: maxRunners,
		desired:  Desired{PatchID: published + numbersGivenAway},
		assigned: map[jobKey]time.Time{}, acquired: map[jobKey]acquisition{},
	}
}

// known says that there were statistics, without which there is nothing to desire.
func (s *scaler) known() bool { return !s.statisticsAt.IsZero() }

// observe evaluates new statistics; nil stands for a service that sent none and repeats the last ones. The patchID
// grows, which tells the EphemeralRunnerSet that ends of jobs it saw a while ago are in replicas by now.
func (s *scaler) observe(statistics *actions.Statistics, now time.Time) {
	if statistics != nil {
		s.statistics = *statistics
	}
	s.statisticsAt = now
	s.desired.PatchID++
	s.evaluate(now)
}

// evaluate applies new limits or acquisitions to the known statistics. The patchID stays: it must not promise
// anything that old statistics can't keep.
func (s *scaler) evaluate(now time.Time) {
	maps.DeleteFunc(s.assigned, func(_ jobKey, at time.Time) bool { return now.Sub(at) > assignmentMemory })
	maps.DeleteFunc(s.acquired, func(_ jobKey, a acquisition) bool { return now.Sub(a.at) > acquisitionMemory })
	jobs := s.jobs()
	for _, acquired := range s.acquired {
		if acquired.patchID == s.desired.PatchID {
			jobs++
		}
	}
	s.desired.AssignedJobs = jobs
	s.desired.Replicas = min(s.minRunners+min(jobs, s.maxRunners), s.maxRunners) // whatever number GitHub sends
}

// jobs is how many are assigned, which can't be fewer than the messages just told of.
func (s *scaler) jobs() int { return max(s.statistics.TotalAssignedJobs, len(s.assigned), 0) }

// remember takes from a message which jobs are assigned and not started.
func (s *scaler) remember(message *actions.Message, now time.Time) {
	for _, job := range message.JobsAssigned {
		if job.ScaleSetAssignTime.IsZero() || now.Sub(job.ScaleSetAssignTime) < freshAssignment {
			s.assigned[keyOf(&job.JobMessageBase)] = now
		}
		delete(s.acquired, keyOf(&job.JobMessageBase))
	}
	for _, job := range message.JobsStarted {
		s.gone(keyOf(&job.JobMessageBase))
	}
	for _, job := range message.JobsCompleted {
		s.gone(keyOf(&job.JobMessageBase))
	}
}

func (s *scaler) gone(job jobKey) {
	delete(s.assigned, job)
	delete(s.acquired, job)
}

// acquire counts jobs that were just acquired, of so many asked for, until statistics come that know of them.
func (s *scaler) acquire(asked int, requestIDs []int64, now time.Time) {
	if s.unclear.patchID != s.desired.PatchID {
		s.unclear.jobs, s.unclear.patchID = 0, s.desired.PatchID
	}
	s.unclear.jobs += max(0, asked-len(requestIDs))
	for _, id := range requestIDs {
		job := jobKey{requestID: id}
		if _, assigned := s.assigned[job]; !assigned {
			s.acquired[job] = acquisition{now, s.desired.PatchID}
		}
	}
	s.evaluate(now)
}

// awaits says that jobs were asked for at the present statistics, so that others have to come before they are repeated.
func (s *scaler) awaits(now time.Time) bool {
	for _, acquired := range s.acquired {
		if now.Sub(acquired.at) <= acquisitionMemory {
			return true
		}
	}
	return s.unclearJobs() > 0
}

// unclearJobs are those that present statistics don't know of yet.
func (s *scaler) unclearJobs() int {
	if s.unclear.patchID != s.desired.PatchID {
		return 0
	}
	return s.unclear.jobs
}

// room is how many jobs may be acquired before capacity is reached. Whether the service's count of acquired jobs
// includes assigned ones is not documented: the difference is right in one case and too low, never too high, in the
// other.
func (s *scaler) room(capacity int) int {
	unassigned := s.statistics.TotalAcquiredJobs - s.statistics.TotalAssignedJobs
	return capacity - s.jobs() - max(len(s.acquired), unassigned) - s.unclearJobs()
}
