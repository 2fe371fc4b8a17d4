package report

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pace delays writes of a status that nobody waits for. Each such write costs the API server as much processor time as
// the creation of a runner and its pod together, because the kinds that carry a pod template are decoded, validated and
// encoded as a whole.
type Pace struct {
	// Figures is the shortest time between two writes that only move figures or texts. While they move, it grows with
	// the time that a write takes, up to longestPace.
	Figures time.Duration
	// A status that would say nothing else may be of an earlier generation of its object for Echo.
	Echo time.Duration
}

const (
	// For paceShare times the duration of the last write only turns are written: an idle API server answers in 10 ms,
	// and one that is busy with writes that somebody waits for in half a second.
	paceShare = 20
	// Figures are at most longestPace old, however busy the API server is.
	longestPace = 10 * time.Second
)

// Written is the last write of a status: its end, its duration, and the version of the object that it made. The zero
// value is none.
type Written struct {
	At      time.Time
	Took    time.Duration
	Version string
}

// TurnInterval passes before a cache that doesn't show the last write yet is searched for a turn again: the turn may be
// that write's.
const TurnInterval = 50 * time.Millisecond

// Change classifies the news in a write of a status.
type Change int

// Changes, by how urgent they are.
const (
	// ChangeNone is no change, and ChangeEcho one of the observed generation alone.
	ChangeNone Change = iota
	ChangeEcho
	// ChangeFigures is one of anything else but the status or reason of a condition, which is ChangeTurn.
	ChangeFigures
	ChangeTurn
)

// DueAt returns the time at which a change is to be written that was first seen at seenAt and had other values until
// movedAt: figures that have come to rest wait for no busy API server.
func (p Pace) DueAt(change Change, last Written, seenAt, movedAt time.Time) time.Time {
	switch change {
	case ChangeTurn:
		return seenAt
	case ChangeEcho:
		return seenAt.Add(p.Echo)
	}
	busy := last.At.Add(min(max(p.Figures, paceShare*last.Took), longestPace))
	rest := last.At
	if movedAt.After(rest) {
		rest = movedAt
	}
	if rest = rest.Add(p.Figures); rest.Before(busy) {
		return rest
	}
	return busy
}

// Turned reports whether a condition has another status or reason, or is new or gone: what people and programs wait
// for.
func Turned(before, after []metav1.Condition) bool {
	if len(before) != len(after) {
		return true
	}
	for i := range after {
		was := meta.FindStatusCondition(before, after[i].Type)
		if was == nil || was.Status != after[i].Status || was.Reason != after[i].Reason {
			return true
		}
	}
	return false
}

// WithoutGeneration returns conditions that are of no generation, for comparison.
func WithoutGeneration(conditions []metav1.Condition) []metav1.Condition {
	bare := make([]metav1.Condition, len(conditions))
	for i, c := range conditions {
		c.ObservedGeneration = 0
		bare[i] = c
	}
	return bare
}
