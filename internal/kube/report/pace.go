package report

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pace is how soon a status is written that nobody waits for. Each such write costs the API server as much processor time as the creation
// of a runner and its pod together, because the kinds that carry a pod template are decoded, validated and encoded as a whole.
type Pace struct {
	// Figures is the shortest time between two writes that only move figures or texts.
	Figures time.Duration
	// Busy is the same while the API server is busy with writes that somebody waits for. It is 10 s at most.
	Busy time.Duration
	// Echo is how long a status may be of an earlier generation of its object if it would say nothing else.
	Echo time.Duration
}

// Change is what a write of a status would tell.
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

// DueAt returns when a change is written at the latest, given when the status was last written and when the change was first seen.
func (p Pace) DueAt(change Change, writtenAt, seenAt time.Time, busy bool) time.Time {
	switch {
	case change == ChangeTurn:
		return seenAt
	case change == ChangeEcho:
		return seenAt.Add(p.Echo)
	case busy:
		return writtenAt.Add(p.Busy)
	}
	return writtenAt.Add(p.Figures)
}

// Turned reports whether a condition has another status or reason, or is new or gone: what people and programs wait for.
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
