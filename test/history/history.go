package history

import (
	"cmp"
	"slices"
	"time"
)

// History has the events of a run. All times are on the API server's clock.
type History struct {
	// MinRunners is the minRunners of all sets.
	MinRunners int
	// Changes are the changes of sets, runners, pods and claims, by revision.
	Changes []Change
	// Leases are the writes of the managers' Lease, Writes the managers' other changes, in the order of their answers.
	Leases []LeaseWrite
	Writes []Write
	// Registrations and Jobs are GitHub's.
	Registrations []Registration
	Jobs          []Job
	// In Disturbed intervals watches or requests were held up. In Blind ones the API server or etcd was away, so
	// changes may be missing here. Blind ends with a List of each kind.
	Disturbed, Blind []Interval
}

// Interval is a stretch of time.
type Interval struct{ From, To time.Time }

func (i Interval) contains(at time.Time) bool { return !at.Before(i.From) && !at.After(i.To) }

// Actor is who made a change.
type Actor string

// Actors. The garbage collector acts for the manager: it deletes pods whose runners the manager has let go.
const (
	Manager   Actor = "manager"
	Listener  Actor = "listener"
	Collector Actor = "garbage collector"
	Other     Actor = "somebody else"
)

// Change is one change of an object. Exactly one of Set, Runner, Pod, Pool, Claim and List is set.
type Change struct {
	// The API server got the request at Received and answered it at Answered.
	Received, Answered time.Time
	// Revision orders changes of all kinds.
	Revision uint64
	By       Actor
	Verb     string // create, update, patch, delete or list

	// The object after the change.
	Set    *Set
	Runner *Runner
	Pod    *Pod
	Pool   *Pool
	Claim  *Claim
	// Gone says that the change was the object's last, or that it is Lost.
	Gone bool
	// Lost says that nobody knows whether the change was made: the object is as it was before, or goes on.
	Lost bool
	// List is all that there was of one kind.
	List *List
}

// uid returns the object's UID.
func (c Change) uid() string {
	switch {
	case c.Set != nil:
		return c.Set.UID
	case c.Runner != nil:
		return c.Runner.UID
	case c.Pod != nil:
		return c.Pod.UID
	case c.Pool != nil:
		return c.Pool.UID
	case c.Claim != nil:
		return c.Claim.UID
	default:
		return ""
	}
}

// Set is an EphemeralRunnerSet.
type Set struct {
	UID, Name string
	// Replicas is the number of runners that the listener asks for, AssignedJobs the number of jobs that it counts.
	Replicas, AssignedJobs, PatchID int
	MaxRunners                      *int // nil is no limit
}

// Runner is an EphemeralRunner.
type Runner struct {
	UID, Name, SetUID string
	Deleting          bool
	// Failed and Outdated say that it won't be tried again and has not run its job to the end.
	Failed, Outdated bool
	// Succeeded says that it has run its job to the end, or was not needed.
	Succeeded bool
	// HasJob and Completed come from the listener's report of its job, whose patchID is JobPatchID.
	HasJob, Completed bool
	JobPatchID        int
	// Claims are the names of the claims that it has.
	Claims []string
}

// Pod is a runner's pod.
type Pod struct {
	UID, Name, RunnerUID string
	Deleting             bool
	Succeeded, Failed    bool
	// Started says that its runner container has started, and so may have had a job.
	Started bool
	// Claims are the names of the claims that it mounts.
	Claims []string
}

// Pool has an AutoscalingRunnerSet's rules for its claims.
type Pool struct {
	UID, Name string
	Max       *int // nil is no limit
	// Events and Results are those of jobs after which a claim is passed on; none means all.
	Events, Results []string
}

// Claim is a PersistentVolumeClaim of a set, which has the name of its Pool.
type Claim struct {
	UID, Name, Set, Template string
}

// List is a complete list of one kind: each slice is nil if it is not about that kind.
type List struct {
	Sets    []Set
	Runners []Runner
	Pods    []Pod
	Pools   []Pool
	Claims  []Claim
}

// LeaseWrite is a successful write of the managers' Lease. Credential tells processes apart.
type LeaseWrite struct {
	Answered           time.Time
	Credential, Holder string
}

// Write is a manager's successful change of an object that only the leader may change.
type Write struct {
	Received   time.Time
	Credential string
	What       string
}

// Registration is a runner's registration with an organization or repository, its scope.
type Registration struct {
	ID           int
	Scope, Name  string
	Since, Until time.Time // Until is zero if it is still there
}

// Job is a job that a runner has run.
type Job struct {
	ID                 int64
	Runner             string
	Event, Result      string    // empty if not known
	Started, Completed time.Time // Completed is zero if it still runs
}

const (
	// Watches and requests are up to usualLate late on a busy machine, and up to disturbedLate if the API server was
	// just away, is slow or refuses requests: client-go repeats a refused request up to ten times, a second apart.
	usualLate     = 3 * time.Second
	disturbedLate = 15 * time.Second
	// A disturbance is felt for recovery after its end: watches are established again after pauses of up to ten
	// seconds.
	recovery = 15 * time.Second
)

// late returns the age that the manager's knowledge may have had at a moment.
func (h *History) late(at time.Time) time.Duration {
	if felt(h.Disturbed, at) || felt(h.Blind, at) {
		return disturbedLate
	}
	return usualLate
}

// felt reports whether one of the disturbances is felt at a moment.
func felt(disturbances []Interval, at time.Time) bool {
	return slices.ContainsFunc(disturbances,
		func(i Interval) bool { return Interval{i.From, i.To.Add(recovery)}.contains(at) })
}

// blind reports whether too little is known of a moment to judge it.
func (h *History) blind(at time.Time) bool {
	return slices.ContainsFunc(h.Blind, func(i Interval) bool { return i.contains(at) })
}

// Check returns the rules that were broken, one line each. It sorts h.Changes.
func (h *History) Check() []string {
	slices.SortStableFunc(h.Changes, func(a, b Change) int { return cmp.Compare(a.Revision, b.Revision) })
	r := newReplay(h)
	for _, change := range h.Changes {
		r.apply(change)
	}
	return slices.Concat(r.broken, h.checkRegistrations(), h.checkLeaders())
}
