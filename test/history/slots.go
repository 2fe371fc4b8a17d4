package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// slot is a runner's use of one of the set's replicas.
type slot string

// Slots. All but the first are occupied.
const (
	free    slot = "free"
	waiting slot = "waiting"
	working slot = "working"
	held    slot = "held"
)

const (
	// A patchID that comes settles after a runner's end, or later, no longer counts its job.
	settles = 3 * time.Second
	// heldAtMost bounds the time for which a slot is held after its runner failed with its job, or completed it without
	// an acknowledging patchID.
	heldAtMost = 15 * time.Minute
)

// slot is the table of decision 0007: the first row that matches decides. "Seen" means that the API server has it:
// whoever acts sees it later.
func (r *replay) slot(runner *runner, at time.Time) slot {
	set := r.sets[runner.SetUID]
	endedWell := runner.pod != nil && runner.pod.Succeeded
	switch {
	case runner.Completed && set.saw(runner.JobPatchID):
		return free
	case runner.Completed && runner.pod.lives():
		return working
	case runner.Completed:
		return heldUntil(at.Sub(runner.ended) >= heldAtMost)
	case runner.Outdated || (runner.Failed && !runner.HasJob):
		return free
	case runner.Failed:
		return heldUntil(at.Sub(runner.ended) >= heldAtMost || r.patchedSince(set, at, r.letGo(runner)))
	case endedWell:
		return heldUntil(r.settled(set, runner, at))
	case runner.HasJob:
		return working
	case runner.Deleting:
		return free
	default:
		return waiting
	}
}

func heldUntil(released bool) slot {
	if released {
		return free
	}
	return held
}

// saw reports whether the patchID, or a later one, has come.
func (s *set) saw(patchID int) bool { return s != nil && s.PatchID >= patchID }

// patchedSince reports whether a manager may have seen a new patchID after a moment. That may be an earlier one, seen
// late.
func (r *replay) patchedSince(set *set, at, since time.Time) bool {
	return set == nil || (!since.IsZero() && set.patched.Add(r.history.late(at)).After(since))
}

// letGo returns the time at which GitHub had let go of a runner that has ended, at its end or later, zero if it has
// not.
func (r *replay) letGo(runner *runner) time.Time {
	at := runner.ended
	for _, registration := range r.history.Registrations {
		switch {
		case registration.Name != runner.Name:
		case registration.Until.IsZero():
			return time.Time{}
		case registration.Until.After(at):
			at = registration.Until
		}
	}
	return at
}

// settled reports whether, as far as a manager may know, GitHub's figures no longer count the job of a runner that
// ended well.
func (r *replay) settled(set *set, runner *runner, at time.Time) bool {
	return r.patchedSince(set, at, runner.ended.Add(settles)) || r.removedFirst(runner, at)
}

// removedFirst reports whether a manager may have seen the removal of a runner's registration before the end of the
// runner, which never had a job: a runner ends when its registration is gone.
func (r *replay) removedFirst(runner *runner, at time.Time) bool {
	hadJob := slices.ContainsFunc(r.history.Jobs, func(job Job) bool { return job.Runner == runner.Name })
	registered := slices.ContainsFunc(r.history.Registrations,
		func(of Registration) bool { return of.Name == runner.Name })
	letGo := r.letGo(runner)
	return registered && !hadJob && !letGo.IsZero() && !letGo.After(runner.ended.Add(r.history.late(at)))
}

// judgeSlot notes since when the runner's slot is occupied.
func (r *replay) judgeSlot(runner *runner, at time.Time) {
	switch occupied := r.slot(runner, at) != free; {
	case !occupied:
		runner.occupied = time.Time{}
	case runner.occupied.IsZero():
		runner.occupied = at
	}
}

// occupied returns the number of slots of the set's other runners that whoever acted must have known to be occupied:
// since the given time or, because a manager knows its own creations, since their creation.
func (r *replay) occupied(created *runner, since time.Time) int {
	count := 0
	for _, other := range r.runners {
		if other == created || other.SetUID != created.SetUID || other.occupied.IsZero() {
			continue
		}
		if !other.occupied.After(since) || other.occupied.Equal(other.created) {
			count++
		}
	}
	return count
}

// describeSlots lists the slots of the set's other runners, those first that were occupied last.
func (r *replay) describeSlots(created *runner) string {
	const most = 10
	var others []*runner
	for _, other := range r.runners {
		if other != created && other.SetUID == created.SetUID {
			others = append(others, other)
		}
	}
	slices.SortFunc(others,
		func(a, b *runner) int { return cmp.Or(b.occupied.Compare(a.occupied), cmp.Compare(a.Name, b.Name)) })
	var slots []string
	for _, other := range others[:min(most, len(others))] {
		slots = append(slots, fmt.Sprintf("%s %s since %s", other.Name, r.slot(other, created.created),
			other.occupied.Format(clockFormat)))
	}
	if len(others) > most {
		slots = append(slots, fmt.Sprintf("and %d more", len(others)-most))
	}
	return strings.Join(slots, ", ")
}
