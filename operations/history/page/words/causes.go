package words

import (
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// Classes of causes, for the style: a scale set that somebody has to mend is no long queue, and a queue that somebody
// wanted so is no problem.
const (
	Problem = "problem"
	Chosen  = "chosen"
	Passing = "passing"
)

// Severity returns the class of what limits a scale set, empty if nothing does.
func Severity(reason string) string {
	switch row := meaning.For(reason); {
	case reason == "":
		return ""
	case row.Chosen:
		return Chosen
	case row.NeedsHand():
		return Problem
	}
	return Passing
}

// Rerun says of a lost job whether it is run again, in few words; nothing if nobody has decided that.
func Rerun(job ledger.Job) string {
	if job.LostCause == "" {
		return ""
	}
	return map[string]string{"Wanted": "is run again", "Asked": "is run again", "Done": "was run again",
		"GivenUp": "not run again"}[job.Rerun]
}
