package state

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Snapshot is everything worth knowing about a GitHub at one moment, without
// any secret.
type Snapshot struct {
	ScaleSets []ScaleSetView `json:"scaleSets"`
	Runners   []RunnerView   `json:"runners"`
	Sessions  []SessionView  `json:"sessions"`
	Anomalies []Anomaly      `json:"anomalies"`
	// JobsByState counts all jobs ever queued.
	JobsByState map[JobState]int `json:"jobsByState"`
}

// ScaleSetView is one scale set of a Snapshot.
type ScaleSetView struct {
	ID          int        `json:"id"`
	Scope       string     `json:"scope"`
	Name        string     `json:"name"`
	RunnerGroup string     `json:"runnerGroup"`
	Labels      []string   `json:"labels"`
	Statistics  Statistics `json:"statistics"`
	// PendingEvents have not been delivered; UnacknowledgedMessages were delivered or could be.
	PendingEvents          int `json:"pendingEvents"`
	UnacknowledgedMessages int `json:"unacknowledgedMessages"`
}

// RunnerView is one registered runner of a Snapshot.
type RunnerView struct {
	ID           int       `json:"id"`
	Name         string    `json:"name"`
	ScaleSetID   int       `json:"scaleSetId"`
	Online       bool      `json:"online"`
	Busy         bool      `json:"busy"`
	Job          int64     `json:"requestId,omitempty"`
	RegisteredAt time.Time `json:"registeredAt"`
	OnlineAt     time.Time `json:"onlineAt,omitzero"`
}

// RegistrationView is one registration of a runner, which may have been removed.
type RegistrationView struct {
	ID           int       `json:"id"`
	Scope        string    `json:"scope"`
	Name         string    `json:"name"`
	RegisteredAt time.Time `json:"registeredAt"`
	RemovedAt    time.Time `json:"removedAt,omitzero"`
}

// SessionView is one live session of a Snapshot.
type SessionView struct {
	ID         string    `json:"id"`
	Owner      string    `json:"owner"`
	ScaleSetID int       `json:"scaleSetId"`
	Capacity   int       `json:"capacity"`
	Polling    bool      `json:"polling"`
	LastSeen   time.Time `json:"lastSeen"`
}

// JobView is one job with its history; times are left out until they happen.
type JobView struct {
	RequestID int64  `json:"requestId"`
	JobID     string `json:"jobId"`
	RunID     int64  `json:"workflowRunId"`
	// RunAttempt is the attempt of the run for which the job was queued.
	RunAttempt int      `json:"runAttempt"`
	Name       string   `json:"name"`
	Labels     []string `json:"labels"`
	State      JobState `json:"state"`
	Result     string   `json:"result,omitempty"`
	Attempts   int      `json:"attempts"`
	ScaleSet   string   `json:"scaleSet,omitempty"`
	ScaleSetID int      `json:"scaleSetId,omitempty"` // sets in several groups may have one name
	RunnerID   int      `json:"runnerId,omitempty"`
	Runner     string   `json:"runner,omitempty"`
	Steps      []Step   `json:"steps,omitempty"`
	// BarredFrom lists the ids of scale sets that never get the job; see Config.ZeroIsFinal.
	BarredFrom []int `json:"barredFrom,omitempty"`

	QueuedAt           time.Time `json:"queuedAt"`
	AvailableAt        time.Time `json:"availableAt,omitzero"`
	AcquiredAt         time.Time `json:"acquiredAt,omitzero"`
	AssignedAt         time.Time `json:"assignedAt,omitzero"`
	RunnerRegisteredAt time.Time `json:"runnerRegisteredAt,omitzero"`
	RunnerOnlineAt     time.Time `json:"runnerOnlineAt,omitzero"`
	StartedAt          time.Time `json:"startedAt,omitzero"`
	CompletedAt        time.Time `json:"completedAt,omitzero"`
}

// View returns the job's history.
func (j *Job) View() JobView {
	v := JobView{
		RequestID: j.RequestID, JobID: j.JobID, RunID: j.RunID, RunAttempt: j.RunAttempt, Name: j.Spec.Name,
		Labels: slices.Clone(j.Spec.Labels), State: j.State, Result: j.Result, Attempts: j.Attempts,
		QueuedAt: j.QueuedAt, AvailableAt: j.AvailableAt, AcquiredAt: j.AcquiredAt, AssignedAt: j.AssignedAt,
		StartedAt: j.StartedAt, CompletedAt: j.CompletedAt,
	}
	v.Steps = slices.Clone(j.Steps)
	v.BarredFrom = slices.Sorted(maps.Keys(j.barred))
	if j.set != nil {
		v.ScaleSet, v.ScaleSetID = j.set.Name, j.set.ID
	}
	if r := j.runner; r != nil {
		v.RunnerID, v.Runner = r.ID, r.Name
		v.RunnerRegisteredAt, v.RunnerOnlineAt = r.RegisteredAt, r.OnlineAt
	}
	return v
}

// Jobs returns all jobs in the order they were queued, or those in one state.
func (s *State) Jobs(in JobState) []JobView {
	views := []JobView{}
	for _, job := range s.jobOrder {
		if in == "" || job.State == in {
			views = append(views, job.View())
		}
	}
	return views
}

// Registrations returns all registrations that there ever were, by id, which is the order of their making.
func (s *State) Registrations() []RegistrationView {
	views := []RegistrationView{}
	for _, r := range s.runners {
		views = append(views, RegistrationView{
			ID: r.ID, Scope: r.Set.Scope.Key, Name: r.Name, RegisteredAt: r.RegisteredAt, RemovedAt: r.RemovedAt,
		})
	}
	slices.SortFunc(views, func(a, b RegistrationView) int { return cmp.Compare(a.ID, b.ID) })
	return views
}

// Snapshot describes everything as it is now.
func (s *State) Snapshot() Snapshot {
	snap := Snapshot{
		ScaleSets: []ScaleSetView{}, Runners: []RunnerView{}, Sessions: []SessionView{},
		Anomalies: s.Anomalies(), JobsByState: map[JobState]int{},
	}
	for _, set := range s.ScaleSets(nil, 0, "") {
		snap.ScaleSets = append(snap.ScaleSets, s.viewSet(set))
		for _, r := range set.runners {
			snap.Runners = append(snap.Runners, r.view())
		}
		if set.session != nil {
			snap.Sessions = append(snap.Sessions, set.session.view())
		}
	}
	slices.SortFunc(snap.Runners, func(a, b RunnerView) int { return cmp.Compare(a.ID, b.ID) })
	for _, job := range s.jobOrder {
		snap.JobsByState[job.State]++
	}
	return snap
}

func (s *State) viewSet(set *ScaleSet) ScaleSetView {
	v := ScaleSetView{
		ID: set.ID, Scope: set.Scope.Key, Name: set.Name, RunnerGroup: set.GroupName,
		Statistics: s.Statistics(set), PendingEvents: len(set.pending), UnacknowledgedMessages: len(set.messages),
	}
	for _, label := range set.Labels {
		v.Labels = append(v.Labels, label.Name)
	}
	return v
}

func (r *Runner) view() RunnerView {
	v := RunnerView{
		ID: r.ID, Name: r.Name, ScaleSetID: r.Set.ID, Online: r.Online, Busy: r.Busy(),
		RegisteredAt: r.RegisteredAt, OnlineAt: r.OnlineAt,
	}
	if r.job != nil {
		v.Job = r.job.RequestID
	}
	return v
}

func (session *Session) view() SessionView {
	return SessionView{
		ID: session.ID, Owner: session.OwnerName, ScaleSetID: session.Set.ID, Capacity: session.capacity,
		Polling: len(session.polls) > 0, LastSeen: session.lastSeen,
	}
}
