package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/history/fold"
	"github.com/harrier-ci/harrier/internal/history/histogram"
	"github.com/harrier-ci/harrier/internal/phases"
)

// waitPhases are the phases that a wait can end in, in the order of their columns.
var waitPhases = [...]string{"assigned", "created", "registered", "placed", "imagePulled", "containerUp", "started"}

// WholeWait stands in the place of a phase for all of them together.
const WholeWait = "all"

// Waits returns the phases of the job's wait, nothing if its beginning is not known.
func (j *Job) Waits() []phases.Wait {
	at := func(t time.Time) *metav1.Time {
		if t.IsZero() {
			return nil
		}
		return new(metav1.NewTime(t))
	}
	return phases.Waits(&v1alpha1.RunnerPhases{
		Queued: at(j.Queued), Assigned: at(j.Assigned), Created: at(j.Created), Registered: at(j.Registered),
		Placed:      at(j.Placed),
		ImagePulled: at(j.ImagePulled), ContainerUp: at(j.ContainerUp), Started: at(j.Started),
	})
}

// newWaitTimes returns the histograms of the seconds that jobs waited: one for each phase, in the order of waitPhases,
// and one for the whole wait.
func newWaitTimes() histogram.List { return histogram.NewList(len(waitPhases) + 1) }

// Wait has the times that jobs which have finished waited for one phase, from the phase before.
type Wait struct {
	Group

	// Phase is the phase that they waited for, or WholeWait.
	Phase string `json:"phase"`
	// Jobs is the number of jobs of which that is known.
	Jobs int64 `json:"jobs"`
	// Half of the jobs, and 95 of 100, waited no longer than these: at most 5 % too large.
	P50Seconds int64 `json:"secondsP50"`
	P95Seconds int64 `json:"secondsP95"`
}

// WaitsBy returns the waits of the jobs that the filter chooses, for each phase and in all: of the groups with most
// jobs, that with the longest whole wait first. Jobs are added up as for usage or, if by is empty, all together.
func (l *Ledger) WaitsBy(ctx context.Context, by By, filter Filter) ([]Wait, error) {
	group, known := groups[by]
	if !known && by != "" {
		return nil, &FilterError{"by", string(by), "set, repository, workflow, job or day"}
	}
	selected := "wait_times"
	if known {
		selected = group + ", wait_times"
	}
	q, err := l.periods(ctx, "SELECT "+selected+" FROM usage_periods", &filter, by)
	if err != nil {
		return nil, err
	}
	q.and("wait_times <> ''")
	all := fold.NewGroups(MaxGroups, othersOf[by], fold.Rules[histogram.List]{
		New: newWaitTimes, Merge: histogram.List.Include,
		Weight: func(times histogram.List) int64 { return times[len(waitPhases)].Count() },
	})
	err = l.periodRows(ctx, q, func(rows *sql.Rows) error {
		var of Group
		var text string
		if err := of.scan(rows, by, &text); err != nil {
			return err
		}
		all.Of(of).Merge(text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how long jobs waited: %w", err)
	}
	return waitsOf(all), nil
}

func waitsOf(all *fold.Groups[Group, histogram.List]) []Wait {
	const whole = len(waitPhases)
	slow := map[Group]int64{}
	sorted := all.Largest(func(a, b histogram.List) int { return cmp.Compare(b[whole].Count(), a[whole].Count()) })
	for _, of := range sorted {
		slow[of] = all.Sums(of)[whole].Quantile(0.95)
	}
	slices.SortFunc(sorted, func(a, b Group) int {
		return cmp.Or(a.Day.Compare(b.Day), cmp.Compare(slow[b], slow[a]),
			cmp.Compare(a.Cluster+a.Namespace+a.Set, b.Cluster+b.Namespace+b.Set),
			cmp.Compare(a.Repository+a.Workflow+a.Name, b.Repository+b.Workflow+b.Name))
	})
	waits := []Wait{}
	for _, of := range sorted {
		times := all.Sums(of)
		for i := range times {
			wait := Wait{Group: of, Phase: WholeWait, Jobs: times[i].Count(),
				P50Seconds: times[i].Quantile(0.5), P95Seconds: times[i].Quantile(0.95)}
			if i < whole {
				wait.Phase = waitPhases[i]
			}
			if wait.Jobs > 0 {
				waits = append(waits, wait)
			}
		}
	}
	return waits
}
