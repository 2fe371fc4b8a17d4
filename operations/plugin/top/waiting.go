package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Waiting is a job that no runner of its scale set has. Why is what limits the set, in few words.
type Waiting struct {
	Namespace  string    `json:"namespace"`
	ScaleSet   string    `json:"scaleSet"`
	Since      time.Time `json:"since"`
	Job        string    `json:"job"`
	ID         string    `json:"id,omitempty"`
	Repository string    `json:"repository,omitempty"`
	Workflow   string    `json:"workflow,omitempty"`
	Run        int64     `json:"run,omitempty"`
	Why        string    `json:"why,omitempty"`
}

// mostWaiting jobs are shown, those that have waited longest.
const mostWaiting = 10

// waitingJobs returns the jobs that have waited longest, as far as listeners tell their names. A listener's list is half a
// minute old at most: of a set not more are told than wait by its newest figures, the oldest.
func waitingJobs(runnerSets map[types.NamespacedName]*v1alpha1.EphemeralRunnerSet, shown []Row) (jobs []Waiting) {
	named := map[types.NamespacedName][]v1alpha1.WaitingJob{}
	for _, set := range runnerSets {
		if listener := set.Status.Listener; listener != nil && len(listener.Waiting) > 0 {
			of := kube.ScaleSetOf(set)
			named[of] = append(named[of], listener.Waiting...)
		}
	}
	for i := range shown {
		row := &shown[i]
		known := named[types.NamespacedName{Namespace: row.Namespace, Name: row.Name}]
		slices.SortFunc(known, func(a, b v1alpha1.WaitingJob) int { return a.Since().Compare(b.Since()) })
		for _, job := range known[:min(len(known), row.Waiting)] {
			jobs = append(jobs, Waiting{Namespace: row.Namespace, ScaleSet: row.Name, Since: job.Since().UTC(), Job: job.Name, ID: job.JobID,
				Repository: job.Repository, Workflow: job.WorkflowRef, Run: job.RunID, Why: row.Why})
		}
	}
	slices.SortFunc(jobs, func(a, b Waiting) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.ScaleSet, b.ScaleSet), strings.Compare(a.Job, b.Job))
	})
	return jobs[:min(len(jobs), mostWaiting)]
}

// waitingLines returns a line for each job, below a header, and nothing for none.
func waitingLines(jobs []Waiting, now time.Time) []string {
	if len(jobs) == 0 {
		return nil
	}
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "WAITS\tRUN\tSCALE SET\tWHY\tJOB")
	ids := rows.Apart(len(jobs), func(i int) rows.Named { return rows.Named{Run: jobs[i].Run, Name: jobs[i].Job, ID: jobs[i].ID} })
	for i := range jobs {
		job := &jobs[i]
		name := output.Clean(job.Job)
		if ids[i] != "" {
			name += ", job " + output.Clean(ids[i])
		}
		if job.Repository != "" {
			name = output.Clean(job.Repository) + ": " + name
		}
		fmt.Fprintf(columns, "%s\t%d\t%s/%s\t%s\t%s\n", output.Duration(now.Sub(job.Since).Truncate(time.Second)), job.Run, job.Namespace,
			job.ScaleSet, cmp.Or(job.Why, "a runner is on its way"), name)
	}
	_ = columns.Flush() // into memory
	return append([]string{""}, strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")...)
}
