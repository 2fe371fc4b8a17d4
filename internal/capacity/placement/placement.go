// Package placement decides the number of jobs for which a set announces room, if it is to announce what its cluster
// can place instead of maxRunners: what the cluster has been seen to hold, and a little more to learn. It is pure: Pods
// counts what the watch of pods shows, Memory remembers the last decisions, and Decide makes the next one. It knows no
// node, no quota and no autoscaler.
package placement

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// The numbers were chosen by simulation, with two clusters on one label and with one, against announcing maxRunners and
// against placeholder pods; scenarios_test.go repeats what decided.
const (
	// firstWindow jobs are given to a cluster that has shown nothing.
	firstWindow = 10
	// Nothing more is let in while a pod has waited for lateGrace. When the API server has refused pods for
	// lateRefusal, that counts like a pod that can't be placed.
	lateGrace   = time.Minute
	lateRefusal = 20 * time.Second
	// The window grows by the factor deliveryGrowth after an autoscaler has delivered the whole of the last one: a
	// round costs minutes.
	deliveryGrowth = 4
	// A window that has grown is narrowed again when it has gone unused for wideTimeout.
	wideTimeout = 10 * time.Minute
	// The mark loses an eighth when it has not been reached for markInterval.
	markInterval = 24 * time.Hour
	// The announced number stays for changeInterval at least.
	changeInterval = 5 * time.Second
	// DefaultTimeout passes before a pod without a node counts as one that can't be placed, unless the set says
	// otherwise.
	DefaultTimeout = 10 * time.Minute
)

// State has to survive a restart, in the status of the runner set.
type State struct {
	// Mark is the number of pods that the cluster has held at the same time and is believed to hold. Window is the
	// number of further pods that may be tried. ReachedAt is the last time at which the mark was reached.
	Mark, Window int
	ReachedAt    time.Time
	// Announced is the number that GitHub is told; 0 if it was never told one, or nothing may be let in.
	Announced int
}

// Memory has what is remembered of one set. What is not in its State may be lost: then less is announced for a while.
type Memory struct {
	Pods
	state State
	// fresh: there is no mark yet.
	fresh bool
	// goal is the mark at which the whole window has become placed pods. The window was changed last at grewAt, and the
	// announced number at announcedAt.
	goal                int
	grewAt, announcedAt time.Time
}

// Remember returns the memory of a set. saved is from its status, nil if that has none. The existing pods have to be
// seen before the first decision.
func Remember(saved *State, now time.Time) *Memory {
	m := &Memory{fresh: saved == nil, grewAt: now, announcedAt: now}
	m.waitsFrom = now
	if saved != nil { // anybody with rights in the namespace may have written it
		inRange := func(n int) int { return min(max(n, 0), v1alpha1.MaxRunnersUnlimited) }
		m.state = State{
			Mark:      inRange(saved.Mark),
			Window:    max(1, inRange(saved.Window)),
			ReachedAt: saved.ReachedAt,
			Announced: inRange(saved.Announced),
		}
		if saved.ReachedAt.IsZero() || saved.ReachedAt.After(now) {
			m.state.ReachedAt = now
		}
		m.goal = m.state.Mark + m.state.Window
	}
	return m
}

// Seen is what a decision follows from, beside the pods.
type Seen struct {
	Now time.Time
	// Working counts the runners with a job, Assigned the jobs that GitHub has given to the set, and Spare the runners
	// that there are to be beside those. Max limits the runners.
	Working, Assigned, Spare, Max int
	// A pod may be without a node for Timeout.
	Timeout time.Duration
	// A quota has refused pods, or runners have waited for a claim, since RefusedSince; zero if nothing is refused.
	RefusedSince time.Time
	// Failing says that the set's runners fail or are outdated, and Rejected that the API server rejects them.
	Failing, Rejected bool
}

// Cause is the reason for which fewer jobs are announced than the set may have runners.
type Cause int

const (
	// Everything is announced.
	Everything Cause = iota
	// RunnersFail: whatever is let in would only fail.
	RunnersFail
	// PodsRefused: a quota refuses pods, or there are no claims.
	PodsRefused
	// PodsWait: pods are without a node for long.
	PodsWait
	// Unproven: nothing waits; the cluster has yet to show that it holds more.
	Unproven
)

// Decision has what was decided, and why.
type Decision struct {
	State
	// Limit is the number that would be announced if every change were. Cause is the reason for which it is not the
	// maximum.
	Limit int
	Cause Cause
	// Placed, Waiting and Stuck count pods: those with a node, those without, and those whose wait says nothing about
	// room.
	Placed, Waiting, Stuck int
	// Failed says that the cluster places nothing more. At ProbeAt one more job is let in nevertheless; zero if that is
	// not planned.
	Failed  bool
	ProbeAt time.Time
	// At Next the next decision is due even if nothing happens; zero means never.
	Next time.Time
}

// round is one decision in the making.
type round struct {
	Seen
	Decision
	// recent is the highest number of pods that were placed at the same time of late.
	recent int
	// refused: the API server refuses pods. late: a pod has waited, or was refused, for so long that nothing more is to
	// come in.
	refused, late bool
}

// Decide makes the next decision. Nothing follows from the number of calls.
func (m *Memory) Decide(seen Seen) Decision {
	r := m.look(seen)
	m.setMark(r)
	m.setWindow(r)
	r.Limit = m.limit(r)
	m.announce(r)
	r.State = m.state
	if r.Limit >= seen.Max && r.Announced >= seen.Max {
		r.Cause = Everything
	}
	return r.Decision
}

// look takes in what is seen now.
func (m *Memory) look(seen Seen) *round {
	r := &round{Seen: seen}
	r.Spare = max(0, seen.Spare)
	if enough := m.enoughOvertakers(); len(m.overtakers) >= enough {
		// The oldest pods are stuck: enough others that are much younger have been given a node.
		r.Stuck = after(m.waiting, m.overtakers[len(m.overtakers)-enough].Add(-overtakingAge))
	}
	waiting := m.waiting[r.Stuck:]
	r.Placed, r.Waiting = m.placed, len(waiting)
	var falls time.Time
	r.recent, falls = m.recent(seen.Now)
	r.by(falls)
	if r.refused = !seen.RefusedSince.IsZero(); r.refused {
		r.Failed = r.reached(seen.RefusedSince.Add(lateRefusal))
	}
	r.late = r.Failed
	if r.Waiting > 0 {
		oldest, youngest := waiting[0], waiting[r.Waiting-1]
		r.late = r.reached(oldest.Add(lateGrace)) || r.late
		r.Failed = r.reached(oldest.Add(r.Timeout)) || r.Failed
		if r.Failed && !r.refused { // what waits may be the odd ones: one more after 1, 2, 4, 8 … timeouts
			r.ProbeAt = youngest.Add(max(r.Timeout, youngest.Sub(oldest)))
		}
	}
	r.late = r.late || r.Failed // a timeout may be shorter than a minute
	return r
}

// by has the next decision made at t at the latest; zero means never.
func (r *round) by(t time.Time) {
	if !t.IsZero() && (r.Next.IsZero() || t.Before(r.Next)) {
		r.Next = t
	}
}

// reached reports whether t has come. If it hasn't, the next decision is made at t at the latest.
func (r *round) reached(t time.Time) bool {
	if r.Now.Before(t) {
		r.by(t)
		return false
	}
	return true
}

// setMark has the mark follow what the cluster holds at the same time: upwards immediately, downwards if it places
// nothing more or wasn't full for a day.
func (m *Memory) setMark(r *round) {
	held := max(m.peak, r.Placed)
	m.peak = r.Placed
	if m.fresh {
		m.fresh = false
		m.state = State{Mark: held, Window: min(firstWindow, max(1, r.Max)), ReachedAt: r.Now}
		m.goal = m.state.Mark + m.state.Window
	}
	s := &m.state
	s.Mark = max(s.Mark, held)
	if r.Failed {
		s.Mark = min(s.Mark, r.recent)
	}
	for s.Mark > held && r.reached(s.ReachedAt.Add(markInterval)) {
		s.Mark = max(held, s.Mark-(s.Mark+7)/8)
		s.ReachedAt = s.ReachedAt.Add(markInterval)
		m.goal = s.Mark + s.Window
	}
	if held >= s.Mark {
		s.ReachedAt = r.Now
	}
}

// setWindow widens the window if the whole of it has become additional placed pods, which turnover alone never does.
func (m *Memory) setWindow(r *round) {
	s := &m.state
	if r.Failed {
		s.Window, m.goal = 1, s.Mark+1
		return
	}
	if s.Mark >= m.goal {
		if m.longestWait >= lateGrace { // an autoscaler delivers
			s.Window *= deliveryGrowth
		} else { // nodes were there: a round costs seconds
			s.Window = max(s.Window, min(2*s.Window, max(firstWindow, s.Mark/4)))
		}
		s.Window = min(s.Window, max(1, r.Max))
		m.goal, m.grewAt = s.Mark+s.Window, r.Now
		m.longestWait, m.waitsFrom = 0, r.Now
	}
	if s.Window > firstWindow && r.reached(m.grewAt.Add(wideTimeout)) {
		s.Window, m.goal = firstWindow, s.Mark+firstWindow
	}
}

// limit returns the number of jobs that may be let in.
func (m *Memory) limit(r *round) int {
	mark, window, held := m.state.Mark, m.state.Window, r.Placed+r.Waiting-r.Spare
	// never the whole mark in one step: the cluster may have changed
	limit := min(mark+window, r.Placed+max(window, mark/2))
	r.Cause = Unproven
	if r.late { // nothing more comes in while a pod waits
		limit, r.Cause = min(limit, held), PodsWait
	}
	if !r.ProbeAt.IsZero() && r.reached(r.ProbeAt) {
		limit = max(limit, held+1)
	}
	if r.refused {
		r.Cause = PodsRefused
	}
	limit = max(limit, r.recent+1, r.Working+1) + r.Stuck
	if r.Rejected {
		limit, r.Cause = min(limit, r.Working+r.Waiting+1), RunnersFail
	}
	if r.Failing {
		limit, r.Cause = r.Working+1, RunnersFail
	}
	return min(limit, r.Max)
}

// announce announces the limit if that matters now: each change costs the listener a poll.
func (m *Memory) announce(r *round) {
	limit, announced := r.Limit, m.state.Announced
	urgent := announced == 0 || announced < min(r.Working+1, r.Max) || announced > r.Max
	matters := 4*max(limit-announced, announced-limit) > m.state.Mark ||
		(limit > announced && r.Assigned >= announced-m.state.Window) ||
		(limit < announced && r.Placed+r.Waiting >= limit)
	if limit != announced && (urgent || (matters && r.reached(m.announcedAt.Add(changeInterval)))) {
		m.state.Announced, m.announcedAt = limit, r.Now
	}
}
