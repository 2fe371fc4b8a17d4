package state

import (
	"slices"
	"strings"
	"time"
)

// Label is a label of a scale set.
type Label struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

// RunnerSetting holds the switches of a scale set; false in a request means
// "not given".
type RunnerSetting struct {
	DisableUpdate bool `json:"disableUpdate,omitempty"`
	Ephemeral     bool `json:"ephemeral,omitempty"`
	IsElastic     bool `json:"isElastic,omitempty"`
}

// ScaleSetSpec has what a client asks for; zero values mean "not given".
type ScaleSetSpec struct {
	Name          string
	RunnerGroupID int
	Labels        []Label
	Setting       RunnerSetting
}

// ScaleSet is a runner scale set with its queue and its jobs.
type ScaleSet struct {
	ID        int
	Scope     *Scope
	Name      string
	GroupID   int
	GroupName string
	Labels    []Label
	Setting   RunnerSetting
	CreatedOn time.Time

	session  *Session
	pending  []JobMessage // events not yet packed into a message
	messages []Message    // packed and not deleted, ids ascending
	jobs     map[int64]*Job
	unpicked []*Job    // assigned, no runner yet, oldest first
	idle     []*Runner // waiting for a job, longest waiting first
	runners  map[int]*Runner
	phantoms int // jobs that the statistics count as assigned and that don't exist
	deleted  bool
}

// CreateScaleSet registers a scale set. It fails with ScaleSetExists when the
// name is taken in the runner group.
func (s *State) CreateScaleSet(now time.Time, scope *Scope, spec ScaleSetSpec) (*ScaleSet, error) {
	if spec.Name == "" {
		return nil, refuse(Invalid, "The name of a runner scale set must not be empty.")
	}
	setDefault(&spec.RunnerGroupID, 1)
	set := &ScaleSet{
		Scope: scope, CreatedOn: now,
		jobs: map[int64]*Job{}, runners: map[int]*Runner{},
	}
	if err := s.rename(set, spec.Name, spec.RunnerGroupID); err != nil {
		return nil, err
	}
	set.Labels = s.labels(spec)
	set.Setting = spec.Setting
	s.lastSet++
	set.ID = s.lastSet
	s.sets[set.ID] = set
	s.offerWaiting(now, set)
	return set, nil
}

// InventScaleSet has the scale set of an id exist under a name, whichever ids were given before.
func (s *State) InventScaleSet(now time.Time, scope *Scope, id int, name string) error {
	if known, isThere := s.sets[id]; isThere {
		return s.rename(known, name, known.GroupID)
	}
	given := s.lastSet
	s.lastSet = id - 1
	_, err := s.CreateScaleSet(now, scope, ScaleSetSpec{Name: name})
	s.lastSet = max(given, s.lastSet)
	return err
}

// labels applies the server's rules: without multi-label support the name is
// the only label, whatever was asked for.
func (s *State) labels(spec ScaleSetSpec) []Label {
	if !s.cfg.MultiLabel || len(spec.Labels) == 0 {
		return []Label{{Type: "System", Name: spec.Name}}
	}
	labels := slices.Clone(spec.Labels)
	for i := range labels {
		setDefault(&labels[i].Type, "System")
	}
	return labels
}

func (s *State) rename(set *ScaleSet, name string, groupID int) error {
	groupName, ok := s.groupName(groupID)
	if !ok {
		return refuse(Invalid, "No runner group found with identifier %d.", groupID)
	}
	for _, other := range s.sets {
		if other != set && other.Scope == set.Scope && other.GroupID == groupID && strings.EqualFold(other.Name, name) {
			return refuse(ScaleSetExists, "Runner scale set %s already exists in runner group %s.", name, groupName)
		}
	}
	set.Name, set.GroupID, set.GroupName = name, groupID, groupName
	return nil
}

// ScaleSet returns a scale set by id, or fails with ScaleSetNotFound. A scope of
// nil finds the sets of all scopes.
func (s *State) ScaleSet(scope *Scope, id int) (*ScaleSet, error) {
	set, ok := s.sets[id]
	if !ok || (scope != nil && set.Scope != scope) {
		return nil, refuse(ScaleSetNotFound, "No runner scale set found with identifier %d.", id)
	}
	return set, nil
}

// ScaleSets returns the scale sets of a scope in order of their ids; a group of
// 0, an empty name and a nil scope fit any.
func (s *State) ScaleSets(scope *Scope, groupID int, name string) []*ScaleSet {
	found := []*ScaleSet{}
	for _, set := range s.sets {
		fits := (scope == nil || set.Scope == scope) && (groupID == 0 || set.GroupID == groupID)
		if fits && (name == "" || strings.EqualFold(set.Name, name)) {
			found = append(found, set)
		}
	}
	slices.SortFunc(found, func(a, b *ScaleSet) int { return a.ID - b.ID })
	return found
}

// UpdateScaleSet changes the fields that are given.
func (s *State) UpdateScaleSet(now time.Time, scope *Scope, id int, spec ScaleSetSpec) (*ScaleSet, error) {
	set, err := s.ScaleSet(scope, id)
	if err != nil {
		return nil, err
	}
	setDefault(&spec.Name, set.Name)
	setDefault(&spec.RunnerGroupID, set.GroupID)
	if err := s.rename(set, spec.Name, spec.RunnerGroupID); err != nil {
		return nil, err
	}
	if len(spec.Labels) > 0 {
		set.Labels = s.labels(spec)
		s.offerWaiting(now, set)
	}
	set.Setting.DisableUpdate = set.Setting.DisableUpdate || spec.Setting.DisableUpdate
	set.Setting.Ephemeral = set.Setting.Ephemeral || spec.Setting.Ephemeral
	set.Setting.IsElastic = set.Setting.IsElastic || spec.Setting.IsElastic
	return set, nil
}

// DeleteScaleSet removes a scale set and the runners it has idle; jobs nobody
// runs yet go back to the queue, running ones finish. byClient false is GitHub
// deleting it by itself, which is no anomaly.
func (s *State) DeleteScaleSet(now time.Time, scope *Scope, id int, byClient bool) error {
	set, err := s.ScaleSet(scope, id)
	if err != nil {
		return err
	}
	delete(s.sets, id)
	set.deleted = true
	s.endSession(set.session)
	s.releaseJobs(now, set, byClient)
	for _, r := range set.runners {
		if r.job == nil {
			s.forget(r)
		}
	}
	for _, other := range s.sets {
		s.offerWaiting(now, other)
	}
	s.place(now)
	return nil
}

func (s *State) releaseJobs(now time.Time, set *ScaleSet, byClient bool) {
	for _, job := range set.sortedJobs() {
		if job.State != Running {
			s.requeue(job)
		} else if byClient {
			s.anomaly(now, ScaleSetDeletedBusy, job.runner, job, "scale set "+set.Name+" was deleted while the job ran")
		}
	}
}

// matches tells whether the set has every label the job asks for.
func (set *ScaleSet) matches(spec *JobSpec) bool {
	if !set.Scope.covers(spec.Owner, spec.Repository) {
		return false
	}
	for _, wanted := range spec.Labels {
		if !slices.ContainsFunc(set.Labels, func(l Label) bool { return strings.EqualFold(l.Name, wanted) }) {
			return false
		}
	}
	return true
}

func (set *ScaleSet) sortedJobs() []*Job {
	jobs := make([]*Job, 0, len(set.jobs))
	for _, job := range set.jobs {
		jobs = append(jobs, job)
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return int(a.RequestID - b.RequestID) })
	return jobs
}
