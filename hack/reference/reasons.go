package main

import (
	"fmt"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// reasons returns the page about what is said of reasons.
func reasons() (string, error) {
	var page strings.Builder
	page.WriteString("# What to do about a reason\n\nGenerated from the code: `make generate`.\n\nYou have read a " +
		"word in a condition, an Event, `kubectl harrier top`, `why` or the doctor: here is whose step it is, " +
		"and what to do. All of these take their text from one table, which is this page. What each word means is in " +
		"[Custom resources](crds.md#reasons) and, for words of ordinary states, in the " +
		"[reference](reference.md#other-reasons); of lost jobs and long waits [another page](causes.md) has as much.\n")
	page.WriteString("\n## Reasons\n\n*By itself* says that the cause may also end without anybody's step: what " +
		"failed is tried again. *Chosen* says that somebody wanted it so, and nothing is wrong.\n")
	var rows [][]string
	index := map[string]int{} // reasons of which the same is said share a row
	var plain, ofPods []string
	for _, row := range meaning.All() {
		switch {
		case row.Advice == "" && row.OfPods:
			ofPods = append(ofPods, code(row.Reason))
			continue
		case row.Advice == "" && row.Few == "":
			plain = append(plain, code(row.Reason))
			continue
		}
		advice := row.Advice
		if row.OfListener != "" {
			advice += ". Of a listener: " + row.OfListener
		}
		said := []string{whose(row), cell(advice), cell(row.Few), cell(row.Author)}
		if i, same := index[strings.Join(said, "|")]; same {
			rows[i][0] += ", " + code(row.Reason)
			continue
		}
		index[strings.Join(said, "|")] = len(rows)
		rows = append(rows, append([]string{code(row.Reason)}, said...))
	}
	table(&page, []string{"reason", "whose step", "what to do", "in `top`", "to the author of a job that waits"}, rows)
	fmt.Fprintf(&page, "\nOf other reasons of a pod, kubelet, scheduler or container runtime say all that is "+
		"known, in the message; `kubectl describe` the runner and its pod: %s.\n", strings.Join(ofPods, ", "))
	fmt.Fprintf(&page, "\nThese name ordinary states, or need no more than their message: "+
		"%s.\n", strings.Join(plain, ", "))
	return page.String(), nil
}

// causes returns the page about what is said of causes of lost jobs, of those that are not run again, and of phases of a
// wait.
func causes() (string, error) {
	var page strings.Builder
	page.WriteString("# Lost jobs and long waits: what to do\n\nGenerated from the code: `make generate`.\n")
	page.WriteString("\n## Causes of lost jobs\n\nWhat to do when [a job was " +
		"lost](lost-jobs.md), so that no more are.\n")
	var rows [][]string
	for _, cause := range v1alpha1.LostCauses {
		loss := meaning.OfLoss(cause)
		rows = append(rows, []string{code(string(cause)), cell(loss.Meaning), loss.Actor.String(), cell(loss.Advice),
			cell(loss.Author + ". " + loss.Commit)})
	}
	table(&page, []string{"cause", "means", "whose step", "what to do", "to the author of the job"}, rows)
	page.WriteString("\n## Lost jobs that are not run again\n\n`status.rerun.reason` of a runner whose job was " +
		"[not run again](lost-jobs.md#lost-jobs-that-run-again), as the ledger and `kubectl harrier why` tell it.\n")
	rows = nil
	for _, reason := range v1alpha1.RerunReasons {
		given := meaning.OfRerun(v1alpha1.RerunGivenUp, reason)
		rows = append(rows, []string{code(string(reason)), cell(given.Sentence), given.Actor.String(), cell(given.Advice)})
	}
	table(&page, []string{"reason", "means", "whose step, for the next one", "what to do"}, rows)
	page.WriteString("\n## Phases of a wait\n\nThe phases in `status.phases` of a runner, in the job's log, in " +
		"the ledger and in `gha_controller_job_wait_seconds`.\n")
	rows = nil
	for _, phase := range meaning.Phases() {
		rows = append(rows, []string{code(phase.Name), cell(phase.Few), cell(phase.Reached), cell(phase.Advice)})
	}
	table(&page, []string{"phase", "on the page", "ends when", "if it takes long"}, rows)
	return page.String(), nil
}

func whose(row meaning.Row) string {
	text := row.Actor.String()
	if row.Actor == meaning.Nobody {
		text = "nobody's"
	}
	if row.Passes {
		text += "; by itself"
	}
	if row.Chosen {
		text += "; chosen"
	}
	return text
}
