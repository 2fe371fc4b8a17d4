package state

// Statistics is the service's view of one scale set. It is derived from the job
// and runner tables at the moment it is asked for, never kept.
type Statistics struct {
	Available  int `json:"totalAvailableJobs"`
	Acquired   int `json:"totalAcquiredJobs"`
	Assigned   int `json:"totalAssignedJobs"`
	Running    int `json:"totalRunningJobs"`
	Registered int `json:"totalRegisteredRunners"`
	Busy       int `json:"totalBusyRunners"`
	Idle       int `json:"totalIdleRunners"`
}

// Statistics counts for one set: jobs that match and are nobody's, jobs bound
// and not assigned, jobs assigned including running, and its runners.
func (s *State) Statistics(set *ScaleSet) Statistics {
	st := Statistics{Registered: len(set.runners), Assigned: set.phantoms}
	for _, job := range s.waiting {
		if set.fits(job) {
			st.Available++
		}
	}
	for _, job := range set.jobs {
		switch job.State {
		case Acquired:
			st.Acquired++
		case Running:
			st.Running++
			st.Assigned++
		default:
			st.Assigned++
		}
	}
	for _, r := range set.runners {
		if r.Busy() {
			st.Busy++
		} else if r.Online {
			st.Idle++
		}
	}
	return st
}

// MessageStatistics returns the statistics of a message for the set, nil if it carries none.
func (s *State) MessageStatistics(set *ScaleSet) *Statistics {
	if s.cfg.ZeroIsFinal && set.advertisesZero() {
		return nil
	}
	st := s.Statistics(set)
	return &st
}

// CountPhantoms makes the statistics of a set count as many assigned jobs more than there are.
func (s *State) CountPhantoms(setID, jobs int) error {
	set, err := s.ScaleSet(nil, setID)
	if err != nil {
		return err
	}
	set.phantoms = jobs
	return nil
}
