package state

import (
	"cmp"
	"slices"
	"time"
)

// place assigns jobs to the given sets, or to all, as far as their advertised
// capacity allows: first jobs bound to a set, then, in the auto-assign flow,
// what waits for any. Of several fitting sets the one with most room gets a job.
func (s *State) place(now time.Time, only ...*ScaleSet) {
	if len(only) == 0 {
		only = s.ScaleSets(nil, 0, "")
	}
	room := map[*ScaleSet]int{}
	for _, set := range only {
		if free := set.room(); free > 0 && !set.deleted {
			room[set] = free - s.assignBound(now, set, free)
		}
	}
	if s.cfg.Flow == AutoAssign {
		s.assignWaiting(now, only, room)
	}
}

// room returns the number of further jobs that the set may have assigned. Without a session nobody has advertised
// anything.
func (set *ScaleSet) room() int {
	if set.session == nil {
		return 0
	}
	assigned := 0
	for _, job := range set.jobs {
		if job.State != Acquired {
			assigned++
		}
	}
	return set.session.capacity - assigned
}

// advertisesZero reports whether the set's session has said that it takes no jobs.
func (set *ScaleSet) advertisesZero() bool {
	return set.session != nil && set.session.advertised && set.session.capacity == 0
}

// fits reports whether the set may get the job.
func (set *ScaleSet) fits(job *Job) bool { return !job.barred[set.ID] && set.matches(&job.Spec) }

// assignBound assigns acquired jobs that are due and returns their number.
func (s *State) assignBound(now time.Time, set *ScaleSet, free int) int {
	var due []*Job
	for _, job := range set.jobs {
		if job.State == Acquired && !job.notBefore.After(now) {
			due = append(due, job)
		}
	}
	slices.SortFunc(due, func(a, b *Job) int { return cmp.Compare(a.RequestID, b.RequestID) })
	due = due[:min(free, len(due))]
	for _, job := range due {
		s.assign(now, set, job)
	}
	return len(due)
}

func (s *State) assignWaiting(now time.Time, sets []*ScaleSet, room map[*ScaleSet]int) {
	if len(room) == 0 {
		return
	}
	waiting := s.waiting
	s.waiting = nil
	for _, job := range waiting {
		set := roomiest(sets, room, job)
		if set == nil {
			s.waiting = append(s.waiting, job)
			continue
		}
		room[set]--
		job.AcquiredAt = now
		s.assign(now, set, job)
	}
}

func roomiest(sets []*ScaleSet, room map[*ScaleSet]int, job *Job) *ScaleSet {
	var best *ScaleSet
	for _, set := range sets {
		if room[set] > 0 && (best == nil || room[set] > room[best]) && set.fits(job) {
			best = set
		}
	}
	return best
}

func (s *State) assign(now time.Time, set *ScaleSet, job *Job) {
	job.State, job.set, job.AssignedAt = Assigned, set, now
	job.Attempts++
	setDefault(&job.AvailableAt, now)
	set.jobs[job.RequestID] = job
	set.unpicked = append(set.unpicked, job)
	set.post(JobAssigned, job)
	if attempt := job.Attempts; s.cfg.PickupTimeout > 0 {
		s.after(now.Add(s.cfg.PickupTimeout), func(now time.Time) { s.missPickup(now, job, attempt) })
	}
	s.startNext(now, set)
}

// startNext brings assigned jobs and waiting runners together, both oldest first.
func (s *State) startNext(now time.Time, set *ScaleSet) {
	for len(set.unpicked) > 0 && len(set.idle) > 0 {
		job, r := set.unpicked[0], set.idle[0]
		set.unpicked, set.idle = set.unpicked[1:], set.idle[1:]
		s.start(now, job, r)
	}
}

// offerWaiting offers everything the set could take. Called when the set is new,
// has new labels or a new session, as an offer may have got lost with the old one.
func (s *State) offerWaiting(now time.Time, set *ScaleSet) {
	s.offerJobs(now, set, s.waiting)
}

func (s *State) offerJobs(now time.Time, set *ScaleSet, jobs []*Job) {
	if s.cfg.Flow != Acquire || len(jobs) == 0 || set.deleted {
		return
	}
	underway := set.offersUnderway()
	for _, job := range jobs {
		if job.State != Queued || underway[job.RequestID] || !set.fits(job) {
			continue
		}
		setDefault(&job.AvailableAt, now)
		set.post(JobAvailable, job)
		s.repeatOffer(now, set, job)
	}
}

func (s *State) repeatOffer(now time.Time, set *ScaleSet, job *Job) {
	if s.cfg.OfferRepeat <= 0 || job.offered[set.ID] {
		return
	}
	job.offered[set.ID] = true
	s.after(now.Add(s.cfg.OfferRepeat), func(now time.Time) {
		delete(job.offered, set.ID)
		s.offerJobs(now, set, []*Job{job})
	})
}

// offersUnderway are the jobs whose offer the client has not acknowledged yet.
func (set *ScaleSet) offersUnderway() map[int64]bool {
	underway := map[int64]bool{}
	note := func(entries []JobMessage) {
		for i := range entries {
			if entries[i].Type == JobAvailable {
				underway[entries[i].RunnerRequestID] = true
			}
		}
	}
	note(set.pending)
	for _, message := range set.messages {
		note(message.Entries)
	}
	return underway
}

// AcquireJobs binds offered jobs to the set whose queue token is given and
// returns the ids this very call has acquired: not those acquired before.
func (s *State) AcquireJobs(now time.Time, setID int, token string, ids []int64) ([]int64, error) {
	set, ok := s.sets[setID]
	if !ok {
		return nil, refuse(ScaleSetNotFound, "No runner scale set found with identifier %d.", setID)
	}
	if set.session == nil {
		return nil, refuse(Unauthorized, "The message queue token is not valid.")
	}
	if _, err := s.authorize(now, set.session.ID, token); err != nil {
		return nil, err
	}
	acquired := []int64{}
	for _, id := range ids {
		job, ok := s.jobs[id]
		if !ok || job.State != Queued || !set.fits(job) {
			continue
		}
		s.waiting = without(s.waiting, job)
		job.State, job.set, job.AcquiredAt = Acquired, set, now
		set.jobs[id] = job
		acquired = append(acquired, id)
	}
	s.place(now, set)
	return acquired, nil
}

// AcquirableJobs returns the offers open to the set; none in the auto-assign flow.
func (s *State) AcquirableJobs(set *ScaleSet) []JobMessage {
	if s.cfg.Flow != Acquire {
		return nil
	}
	offers := &ScaleSet{Scope: set.Scope}
	for _, job := range s.waiting {
		if set.fits(job) {
			offers.post(JobAvailable, job)
		}
	}
	return offers.pending
}
