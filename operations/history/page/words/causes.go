package words

import (
	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
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

// rerunOf returns what has been decided about running a lost job again.
func rerunOf(job *ledger.Job) meaning.Rerun {
	return meaning.OfRerun(v1alpha1.RerunState(job.Rerun), v1alpha1.RerunReason(job.RerunReason))
}

// Rerun says of a lost job whether it is run again, in few words; nothing if nobody has decided that.
func Rerun(job ledger.Job) string {
	if job.LostCause == "" {
		return ""
	}
	return rerunOf(&job).Few
}

// WhyRerun says of a lost job whether it is run again and why or why not, and what would have the next one run again;
// nothing of any other job.
func WhyRerun(job *ledger.Job) string {
	if job.LostCause == "" {
		return ""
	}
	said := rerunOf(job)
	text := said.Sentence
	if job.RerunAttempt != nil {
		text += " The workflow run's attempt " + Grouped(*job.RerunAttempt) + " has it."
	}
	if said.Advice != "" {
		text += " To have the next one run again, " + said.Advice + ": that is for " + said.Actor.String() + "."
	}
	return text
}
