package page

import (
	"context"
	"strconv"

	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
)

// runJob is a job of a run that has or had a runner.
type runJob struct {
	ledger.Job
	Slowest, Link string
	// Log leads to the job's log on GitHub, and is empty if that is not known.
	Log string
}

// runPage answers why the jobs of a workflow run wait, and what became of the others.
type runPage struct {
	Waiting []waitingRow
	Jobs    []runJob
	// More leads to all jobs, empty if these are all.
	More                         string
	Running, Ended, Failed, Lost int
	// Known is set if anything is known of the run, Here if the ledger knows what waits in its cluster.
	Known, Here bool
	// Kept are scale sets of which GitHub keeps jobs: those of this run may be among them.
	Kept    []setRow
	Address string
	Tables  []link.Table
}

// runJobs are shown, at about 900 B each: no matrix has more than 256 jobs.
const runJobs = 100

func oneRun(ctx context.Context, p *pages, r *request) (answer, error) {
	id := r.Filter.RunID
	if id == 0 {
		return answer{}, &ledger.FilterError{Field: "run", Want: "the number of a workflow run, or its address"}
	}
	page := runPage{Here: p.Cluster != nil, Tables: []link.Table{
		link.ToTable("jobs", "Jobs of the run", nil, "runID", strconv.FormatInt(id, 10), "namespace", access.Namespace(ctx)),
	}}
	if page.Here {
		if err := page.addWaiting(ctx, p, r, id); err != nil {
			return answer{}, err
		}
	}
	found, err := p.Ledger.Jobs(ctx, ledger.Filter{Cluster: r.Filter.Cluster, Namespace: r.Filter.Namespace, Set: r.Filter.Set,
		RunID: id, Limit: runJobs})
	if err != nil {
		return answer{}, err
	}
	for i := range found.Jobs {
		job := &found.Jobs[i]
		row := runJob{Job: *job, Slowest: picture.Longest(picture.PartsOf(job)),
			Link: link.ToSet(job.Cluster, job.Namespace, job.Set, nil)}
		if page.Here && job.Cluster == p.Name {
			row.Log = link.ToLog(p.Cluster.GitHub(job.Namespace, job.Set), job.Repository, &id, job.JobNumber)
		}
		page.Jobs = append(page.Jobs, row)
		switch {
		case job.Finished.IsZero():
			page.Running++
		case job.LostCause != "":
			page.Lost++
		case job.Result == "failed":
			page.Failed++
		}
		if page.Here && page.Address == "" && job.Cluster == p.Name {
			page.Address = link.ToRun(p.Cluster.GitHub(job.Namespace, job.Set), job.Repository, &id, nil) // of all attempts
		}
	}
	page.Ended = len(page.Jobs) - page.Running
	if found.Next != "" {
		page.More = link.To("jobs", nil, "runID", strconv.FormatInt(id, 10), "from", "90d")
	}
	page.Known = len(page.Waiting)+len(page.Jobs) > 0
	return answer{"Run " + strconv.FormatInt(id, 10), []link.Choice{{Text: "Jobs", Link: "jobs"}}, page}, nil
}

// addWaiting adds the jobs of a run that wait in a scale set which the request may see.
func (page *runPage) addWaiting(ctx context.Context, p *pages, r *request, id int64) error {
	sets, err := p.sets(ctx, r, ledger.Filter{Cluster: r.Filter.Cluster, Namespace: r.Filter.Namespace, Set: r.Filter.Set})
	if err != nil {
		return err
	}
	rows := setRows(sets, r.query)
	waiting, _ := longestWaiting(p.Cluster, p.Name, rows, func(run int64) bool { return run == id })
	for i := range waiting {
		page.Waiting = append(page.Waiting, waiting[i])
		if page.Address == "" {
			page.Address = link.ToRun(p.Cluster.GitHub(waiting[i].Namespace, waiting[i].Set), waiting[i].Repository, &id, nil)
		}
	}
	for i := range rows {
		if set := &rows[i]; set.Waiting > 0 && words.Severity(set.LimitedReason) == words.Chosen && len(page.Kept) < maxWaitingSets {
			page.Kept = append(page.Kept, *set)
		}
	}
	return nil
}
