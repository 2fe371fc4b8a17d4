package page

import (
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/page/words"
)

// sentence is what stands first: how many jobs wait and why, how many run, and what ends only if somebody acts.
type sentence struct {
	Waiting, Running int64
	// Clauses are of the scale sets in which most jobs wait, Others the jobs of further ones.
	Clauses []clause
	Others  int64
	// Broken are scale sets with a cause that somebody has to end, also if no job waits, MoreBroken how many more.
	Broken     []clause
	MoreBroken int
}

// clause is about one scale set.
type clause struct {
	Set, Link, Why, Actor string
	Jobs                  int64
}

// mostClauses are read in one breath.
const mostClauses = 4

// newSentence takes scale sets with most waiting jobs first.
func newSentence(sets []setRow) (s sentence) {
	for i := range sets {
		set := &sets[i]
		s.Waiting, s.Running = s.Waiting+set.Waiting, s.Running+set.Running
		about := clause{Set: set.Set, Link: set.Link, Jobs: set.Waiting, Why: "a runner is on its way"}
		if set.LimitedReason != "" {
			about.Why = meaning.For(set.LimitedReason).InFewWords()
		}
		if words.Severity(set.LimitedReason) == words.Problem {
			about.Actor = meaning.For(set.LimitedReason).Actor.String()
			if len(s.Broken) < mostClauses {
				s.Broken = append(s.Broken, about)
			} else {
				s.MoreBroken++
			}
		}
		switch {
		case set.Waiting > 0 && len(s.Clauses) < mostClauses:
			s.Clauses = append(s.Clauses, about)
		case set.Waiting > 0:
			s.Others += set.Waiting
		}
	}
	return s
}
