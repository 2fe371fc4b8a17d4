package page

import (
	"context"
	"net/url"
	"time"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
)

// pageOfJobs is the number of jobs on a page, at about 1 KB each.
const pageOfJobs = 50

// jobsPage has the content of the page of jobs.
type jobsPage struct {
	Jobs []ledger.Job
	// Next leads to the next page, First to the youngest jobs; empty if that is this page.
	Next, First string
	// Jobs before LookedTo were not looked at; zero if all were or the page is full.
	LookedTo time.Time
	Gaps     gapList
	Tables   []link.Table
	Query    url.Values
}

func listJobs(ctx context.Context, p *pages, r *request) (answer, error) {
	filter := r.Filter
	if filter.Limit == 0 || filter.Limit > pageOfJobs {
		filter.Limit = pageOfJobs
	}
	found, err := p.Ledger.Jobs(ctx, filter)
	if err != nil {
		return answer{}, err
	}
	gaps, err := p.Ledger.Gaps(ctx, ledger.Filter{Cluster: filter.Cluster, From: filter.From, To: filter.To})
	if err != nil {
		return answer{}, err
	}
	page := jobsPage{Jobs: found.Jobs, LookedTo: found.LookedTo, Gaps: listGaps(gaps.Rows), Query: r.query,
		Tables: []link.Table{
			link.ToTable("jobs", "Jobs", r.query), link.ToGaps(r.query, access.Namespace(ctx)),
		}}
	if found.Next != "" {
		page.Next = link.To("jobs", r.query, "after", found.Next)
	}
	if filter.After != "" {
		page.First = link.To("jobs", r.query, "after", "")
	}
	return answer{Title: "Jobs", Main: page}, nil
}

// jobPage has the content of the page of one job.
type jobPage struct {
	ledger.Job
	Outcome words.Outcome
	Meaning string
	Rerun   string
	Parts   []picture.Part
	Slowest string
	// Waited is the whole wait, empty if its beginning is not known.
	Waited   string
	SetLink  string
	Attempts []ledger.Job
	// Run leads to GitHub, and is empty if GitHub's address is not known.
	Run       string
	Commands  []string
	CPU       *int64
	Throttled *int64
	// Killed are processes that were killed for lack of memory.
	Killed int64
	Tables []link.Table
}

// shownAttempts bounds the other jobs that have a job's name and run.
const shownAttempts = 20

// reruns are sentences for the states of a lost job's rerun.
var reruns = map[string]string{
	"Wanted":  "It is run again when the workflow run has ended.",
	"Asked":   "GitHub was asked to run it again.",
	"Done":    "It was run again.",
	"GivenUp": "It was not run again: its author can do that on the page of the workflow run.",
	"": "Nobody has asked GitHub to run it again: feedback.rerunLostJobs of its scale set says for which causes Harrier " +
		"does.",
}

func oneJob(ctx context.Context, p *pages, r *request) (answer, error) {
	job, err := p.Ledger.Job(ctx, r.Filter.RunnerUID)
	if err == nil && !r.Filter.Place(&job) {
		err = ledger.ErrNoJob
	}
	if err != nil {
		return answer{}, err
	}
	page := jobPage{
		Job: job, Outcome: words.OutcomeOf(&job),
		Meaning: meaning.OfLoss(v1alpha1.LostCause(job.LostCause)).Meaning,
		Parts:   picture.PartsOf(&job), SetLink: link.ToSet(job.Cluster, job.Namespace, job.Set, nil),
		CPU: job.CPUAverageMillis(), Throttled: job.ThrottledPercent(), Commands: jobCommands(&job),
		Waited: words.Waited(&job), Killed: ptr.Deref(job.OOMKills, 0),
		Tables: []link.Table{link.ToTable("jobs/"+url.PathEscape(job.RunnerUID), "This job", nil)},
	}
	page.Slowest = picture.Longest(page.Parts)
	if job.LostCause != "" {
		page.Rerun = reruns[job.Rerun]
	}
	if p.Cluster != nil && job.Cluster == p.Name {
		github := p.Cluster.GitHub(job.Namespace, job.Set)
		page.Run = link.ToRun(github, job.Repository, job.RunID, job.Attempt)
	}
	if job.RunID != nil {
		same, err := p.Ledger.Jobs(ctx, ledger.Filter{RunID: *job.RunID, Repository: job.Repository, Name: job.Name,
			Limit: shownAttempts + 1})
		if err != nil {
			return answer{}, err
		}
		for i := range same.Jobs {
			if other := &same.Jobs[i]; other.RunnerUID != job.RunnerUID && other.Name == job.Name {
				page.Attempts = append(page.Attempts, *other)
			}
		}
	}
	title := words.Foreign(job.Name)
	if title == "" {
		title = "Job of " + words.Foreign(job.Runner)
	}
	return answer{title, []link.Choice{
		{Text: "Jobs", Link: "jobs"}, {Text: words.Foreign(page.Set), Link: page.SetLink},
	}, page}, nil
}

// jobCommands returns commands that tell more of a job as long as its runner exists.
func jobCommands(job *ledger.Job) (commands []string) {
	if !link.IsName(job.Namespace) || !link.IsName(job.Runner) {
		return nil
	}
	commands = []string{"kubectl harrier why --namespace " + job.Namespace + " " + job.Runner}
	if job.Finished.IsZero() {
		commands = append(commands, "kubectl --namespace "+job.Namespace+" describe pod "+job.Runner,
			"kubectl --namespace "+job.Namespace+" logs --follow --container runner "+job.Runner)
	}
	return commands
}
