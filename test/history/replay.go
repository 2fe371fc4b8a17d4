package history

import (
	"fmt"
	"math"
	"time"
)

// replay is the state of the cluster after some of the changes.
type replay struct {
	history *History
	sets    map[string]*set    // by UID, as are the others
	runners map[string]*runner // those that exist
	pods    map[string]*pod    // those that exist
	claims  claims
	// lost are runners of which the history has lost track, and which may come back with what was not seen meanwhile.
	lost map[string]*runner
	// revisions has the revision of each object's last change, also of objects that are gone.
	revisions map[string]uint64
	broken    []string
}

type set struct {
	Set
	// wanted and maxRunners have the former values, each with the time until which it was in force.
	wanted, maxRunners []value
	// The last patchID came at patched.
	patched time.Time
}

// value is a field's former value, and the time until which it was in force.
type value struct {
	was   int
	until time.Time
}

type runner struct {
	Runner
	// known says that its creation was seen. Otherwise the maxRunners of that moment is unknown.
	known   bool
	created time.Time
	// most is the maxRunners in force at its creation.
	most int
	// pod is its newest pod, which may be gone, nil if there was none yet.
	pod *pod
	// At ended it was seen to have ended, well or not; zero before.
	ended time.Time
	// Since occupied its slot is occupied without interruption; zero if it is free.
	occupied time.Time
}

type pod struct {
	Pod
	gone bool
}

func (p *pod) lives() bool { return p != nil && !p.gone && !p.Succeeded && !p.Failed }

func newReplay(h *History) *replay {
	return &replay{history: h, sets: map[string]*set{}, runners: map[string]*runner{}, pods: map[string]*pod{},
		claims: newClaims(), lost: map[string]*runner{},
		revisions: map[string]uint64{}}
}

// apply makes one change and checks it.
func (r *replay) apply(c Change) {
	switch {
	case c.Set != nil:
		r.applySet(c, *c.Set)
	case c.Runner != nil:
		r.applyRunner(c, *c.Runner)
	case c.Pod != nil:
		r.applyPod(c, *c.Pod)
	case c.Pool != nil:
		r.applyPool(c, *c.Pool)
	case c.Claim != nil:
		r.applyClaim(c, *c.Claim)
	case c.List != nil:
		r.resync(c)
	}
	for _, runner := range r.runners {
		r.judgeSlot(runner, c.Answered)
	}
}

// outdated reports whether a newer change of the object was applied already, and otherwise notes this one.
func (r *replay) outdated(uid string, c Change) bool {
	if c.Revision < r.revisions[uid] {
		return true
	}
	r.revisions[uid] = c.Revision
	return false
}

func (r *replay) applySet(c Change, next Set) {
	if r.outdated(next.UID, c) {
		return
	}
	known := r.sets[next.UID]
	if known == nil {
		known = &set{Set: next, patched: c.Answered}
		r.sets[next.UID] = known
	}
	if known.PatchID != next.PatchID {
		known.patched = c.Answered
	}
	known.wanted = append(known.wanted, value{known.slots(r.history.MinRunners), c.Answered})
	known.maxRunners = append(known.maxRunners, value{known.limit(), c.Answered})
	known.Set = next
}

// limit returns maxRunners as a number.
func (s Set) limit() int {
	if s.MaxRunners == nil {
		return math.MaxInt
	}
	return *s.MaxRunners
}

// slots returns the allowed number of runners: as many as the listener asks for or, because it may have asked before a
// number changed, as its jobs and minRunners need.
func (s Set) slots(minRunners int) int {
	return max(s.Replicas, min(s.AssignedJobs+minRunners, s.limit()))
}

// largest returns the largest value that was in force since a time.
func largest(now int, before []value, since time.Time) int {
	for i := len(before) - 1; i >= 0 && !before[i].until.Before(since); i-- {
		now = max(now, before[i].was)
	}
	return now
}

func (r *replay) applyRunner(c Change, next Runner) {
	if r.outdated(next.UID, c) {
		return
	}
	known := r.runners[next.UID]
	if c.Gone {
		if c.Lost && known != nil {
			r.lost[next.UID] = known
		}
		delete(r.runners, next.UID)
		return
	}
	if known == nil {
		known = r.lost[next.UID] // what was used by it, was used by this one
		if delete(r.lost, next.UID); known == nil {
			known = &runner{}
		}
		*known = runner{Runner: next, known: c.Verb == "create", created: c.Answered, most: math.MaxInt}
		r.runners[next.UID] = known
		if known.known && c.By == Manager {
			r.checkCreation(c, known)
			r.checkLease(c, known)
		}
		known.occupied = c.Answered
	}
	if known.ended.IsZero() && (next.Failed || next.Outdated) {
		known.ended = c.Answered
	}
	known.Runner = next
}

// checkCreation checks rules 1 and 4 for a runner that was just created.
func (r *replay) checkCreation(c Change, created *runner) {
	set := r.sets[created.SetUID]
	if set == nil || r.history.blind(c.Received) {
		return
	}
	since := c.Received.Add(-r.history.late(c.Received))
	created.most = largest(set.limit(), set.maxRunners, since)
	if alive := r.alive(created.SetUID); alive > created.most {
		r.breach(c, "runner %s was created: %d alive, maxRunners is %d", created.Name, alive, created.most)
	}
	slots, occupied := largest(set.slots(r.history.MinRunners), set.wanted, since), r.occupied(created, since)
	if occupied >= slots {
		r.breach(c, "runner %s was created although %d slots were occupied of %d: %s",
			created.Name, occupied, slots, r.describeSlots(created))
	}
}

// alive returns the number of a set's runners that run or will run: those whose pod has not ended, and those that wait
// for a pod.
func (r *replay) alive(setUID string) int {
	count := 0
	for _, runner := range r.runners {
		if runner.SetUID == setUID && runner.alive() {
			count++
		}
	}
	return count
}

func (r *runner) alive() bool {
	if r.pod.lives() {
		return true
	}
	endedWell := r.pod != nil && r.pod.Succeeded
	return !r.Deleting && !r.Failed && !r.Outdated && !r.Completed && !endedWell
}

func (r *replay) applyPod(c Change, next Pod) {
	if r.outdated(next.UID, c) {
		return
	}
	known := r.pods[next.UID]
	if known == nil {
		known = &pod{Pod: next}
		r.pods[next.UID] = known
		if owner := r.runners[next.RunnerUID]; owner != nil {
			owner.pod, owner.ended = known, time.Time{}
			r.checkStart(c, owner)
		}
		r.checkMounts(c, known)
	}
	if c.Verb == "delete" {
		r.checkDeletion(c, known)
	}
	owner := r.runners[next.RunnerUID]
	if owner != nil && owner.pod == known && owner.ended.IsZero() && (next.Succeeded || next.Failed) {
		owner.ended = c.Answered
	}
	next.Started = next.Started || known.Started // the answer to a deletion may have no status
	known.Pod = next
	if c.Gone {
		known.gone = true
		delete(r.pods, next.UID)
	}
}

// checkStart checks rule 1 when a pod is created: if its runner waited longer than others, the pod may be one too many.
func (r *replay) checkStart(c Change, started *runner) {
	if r.history.blind(c.Received) {
		return
	}
	most, alive := 0, 0
	for _, runner := range r.runners {
		if runner.SetUID == started.SetUID && runner.pod.lives() {
			alive++
			most = max(most, runner.most)
		}
	}
	if alive > most {
		r.breach(c, "pod %s was created: %d alive, maxRunners was at most %d when they were created",
			started.Name, alive, most)
	}
}

// checkDeletion checks rule 3. A pod that has ended, or that somebody else deletes, has lost its job already.
func (r *replay) checkDeletion(c Change, deleted *pod) {
	if c.By == Other || deleted.Deleting || !deleted.lives() {
		return
	}
	for _, job := range r.history.Jobs {
		during := job.Started.Before(c.Received) && (job.Completed.IsZero() || job.Completed.After(c.Received))
		if job.Runner == deleted.Name && during {
			r.breach(c, "the %s deleted pod %s during its job %d, which started at %s",
				c.By, deleted.Name, job.ID, job.Started.Format(clockFormat))
		}
	}
}

// resync takes over a complete list of one kind. What is not in it is gone.
func (r *replay) resync(c Change) {
	listed := map[string]bool{}
	for _, set := range c.List.Sets {
		r.applySet(c, set)
	}
	for _, runner := range c.List.Runners {
		listed[runner.UID] = true
		r.applyRunner(c, runner)
	}
	for _, pod := range c.List.Pods {
		listed[pod.UID] = true
		r.applyPod(c, pod)
	}
	r.resyncClaims(c)
	for uid, known := range r.runners {
		if c.List.Runners != nil && !listed[uid] {
			delete(r.runners, known.UID)
		}
	}
	for uid, known := range r.pods {
		if c.List.Pods != nil && !listed[uid] {
			known.gone = true
			delete(r.pods, uid)
		}
	}
}

// clockFormat is precise enough to find a line of a log.
const clockFormat = "15:04:05.000"

// breach notes that a change broke a rule.
func (r *replay) breach(c Change, format string, values ...any) {
	r.broken = append(r.broken, c.Received.Format(clockFormat)+" "+fmt.Sprintf(format, values...))
}
