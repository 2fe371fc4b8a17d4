package why

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Of the jobs that wait the mostLongest are told that have waited longest.
const mostLongest = 20

// unasked finds the jobs that have waited longest, without a word of the user's.
func (g *gathering) unasked(ctx context.Context) {
	g.addWaiting(ctx, func(*v1alpha1.WaitingJob) bool { return true })
	if len(g.facts) > 0 {
		running := map[string]bool{}
		g.list(ctx, "EphemeralRunners", func() client.ObjectList { return &v1alpha1.EphemeralRunnerList{} },
			func(list client.ObjectList) {
				items := list.(*v1alpha1.EphemeralRunnerList).Items
				for i := range items {
					if id := items[i].Status.JobID; id != "" {
						running[id] = true
					}
				}
			})
		g.facts = slices.DeleteFunc(g.facts, func(f *fact) bool { return running[f.waiting.JobID] })
	}
	slices.SortStableFunc(g.facts, func(a, b *fact) int { return a.waiting.Since().Compare(b.waiting.Since()) })
	if more := len(g.facts) - mostLongest; more > 0 {
		g.facts = g.facts[:mostLongest]
		g.notes = append(g.notes, fmt.Sprintf("%d more wait; kubectl harrier top counts those of each scale set.", more))
	}
	g.kept(ctx)
}

// kept notes the jobs that GitHub keeps because a scale set has no room. Nobody here knows their names.
func (g *gathering) kept(ctx context.Context) {
	g.list(ctx, "AutoscalingRunnerSets", func() client.ObjectList { return &v1alpha1.AutoscalingRunnerSetList{} },
		func(list client.ObjectList) {
			items := list.(*v1alpha1.AutoscalingRunnerSetList).Items
			for i := range items {
				set := &items[i]
				if set.Status.AvailableJobs <= 0 {
					continue
				}
				why := "has no room"
				if limit := set.Status.LimitedBy; limit != nil {
					why = fmt.Sprintf("is limited by %s since %s: %s", limit.Reason, limit.Since.UTC().Format(time.RFC3339),
						limit.Message)
				}
				g.notes = append(g.notes, fmt.Sprintf("GitHub keeps %s because scale set %s/%s %s. Which they are, nobody "+
					"here knows until they are assigned.", finding.Counted(set.Status.AvailableJobs, "job", "jobs"), set.Namespace, set.Name, why))
			}
		})
}
