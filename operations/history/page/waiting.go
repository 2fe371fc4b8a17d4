package page

import (
	"cmp"
	"context"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// setRow is a scale set in a table, or at the top of its own page.
type setRow struct {
	ledger.Sample
	// Silent is set if nobody has said anything about it for too long.
	Silent bool
	Strip  picture.Strip
	Usage  ledger.Usage
	Link   string
}

// A set's sample may be late by sampleSlack; questions for samples look ledger.SampleInterval further back by
// themselves. A set without any sample is gone, or nobody looks.
const sampleSlack = 5 * time.Minute

// setRows returns scale sets, those with most waiting jobs first.
func setRows(sets []ledger.Sample, query url.Values) (all []setRow) {
	for i := range sets {
		s := &sets[i]
		all = append(all, setRow{Sample: *s, Link: link.ToSet(s.Cluster, s.Namespace, s.Set, query)})
	}
	slices.SortStableFunc(all, func(a, b setRow) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), limitedFirst(&a, &b), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Set, b.Set), cmp.Compare(a.Cluster, b.Cluster))
	})
	return all
}

// sets returns how the filter's sets look: those of the ledger's own cluster at this moment, and all others by their last
// samples.
func (p *pages) sets(ctx context.Context, r *request, filter ledger.Filter) ([]ledger.Sample, error) {
	filter.From, filter.To = r.window.To.Add(-sampleSlack), r.Filter.To
	sets, err := p.Ledger.Sets(ctx, filter)
	if err != nil || p.Cluster == nil || !filter.To.IsZero() {
		return sets, err
	}
	return ledger.Present(sets, p.Cluster.Sets(), &filter), nil
}

func limitedFirst(a, b *setRow) int {
	switch {
	case (a.LimitedReason == "") == (b.LimitedReason == ""):
		return 0
	case a.LimitedReason != "":
		return -1
	}
	return 1
}

// waitingRow is a job that no runner has. Why is what its scale set is limited by, in the words of the table of reasons,
// nil if nothing limits it: then a runner is on its way.
type waitingRow struct {
	v1alpha1.WaitingJob
	Workflow, Branch string
	// Apart tells the job from others of its name and run; empty if there is none.
	Apart                string
	Namespace, Set, Link string
	Why                  *meaning.Row
}

const (
	// Of the jobs that wait the oldest maxWaiting are named, those of maxWaitingSets scale sets: most wait in few.
	maxWaiting     = 20
	maxWaitingSets = 20
)

func newWaitingRow(job v1alpha1.WaitingJob, of *setRow, why *meaning.Row) waitingRow {
	row := waitingRow{WaitingJob: job, Namespace: of.Namespace, Set: of.Set, Link: of.Link, Why: why}
	workflow, ref, _ := strings.Cut(job.WorkflowRef, "@")
	if row.Branch = strings.TrimPrefix(ref, "refs/heads/"); workflow != "" {
		row.Workflow = path.Base(workflow)
	}
	return row
}

// apart tells jobs of one name and run from each other.
func apart(waiting []waitingRow) {
	for i, id := range rows.Apart(len(waiting), func(i int) rows.Named {
		return rows.Named{Run: waiting[i].RunID, Name: waiting[i].Name, ID: waiting[i].JobID}
	}) {
		waiting[i].Apart = id
	}
}

// longestWaiting returns the jobs of some runs that have waited longest, of scale sets that have most of them first, and how
// many more are known by name.
func longestWaiting(cluster Cluster, name string, sets []setRow, of func(run int64) bool) (longest []waitingRow, more int) {
	waiting, asked := cluster.Waiting(), 0
	for i := range sets {
		s := &sets[i]
		if s.Waiting == 0 || (s.Cluster != name && s.Cluster != "") || asked == maxWaitingSets {
			continue
		}
		asked++
		var why *meaning.Row
		if s.LimitedReason != "" {
			why = new(meaning.For(s.LimitedReason))
		}
		for _, job := range waiting[types.NamespacedName{Namespace: s.Namespace, Name: s.Set}] {
			if of(job.RunID) {
				longest = append(longest, newWaitingRow(job, s, why))
			}
		}
	}
	slices.SortStableFunc(longest, func(a, b waitingRow) int { return a.Since().Compare(b.Since()) })
	apart(longest)
	shown := min(len(longest), maxWaiting)
	return longest[:shown], len(longest) - shown
}
