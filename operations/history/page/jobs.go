package page

import (
	"context"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
	"github.com/harrier-ci/harrier/operations/history/prices"
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
	// Run leads to the workflow run on GitHub, Log to the job's log there; each is empty if its address is not known.
	Run, Log string
	// Machine has the labels of the node that prices may depend on, Devices the extended resources that were requested.
	Machine []string
	Devices []device
	// Cost is nil if it is unknown. Nobody asks for it if Priced is not set.
	Cost      *float64
	Priced    bool
	Commands  []string
	CPU       *int64
	Throttled *int64
	// Killed are processes that were killed for lack of memory.
	Killed int64
	Tables []link.Table
}

// device is an extended resource, and how much of it was requested.
type device struct{ Name, Number string }

// shownAttempts bounds the other jobs that have a job's name and run.
const shownAttempts = 20

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
	page.Slowest, page.Rerun = picture.Longest(page.Parts), words.WhyRerun(&job)
	page.addMachine(p.Prices)
	if p.Cluster != nil && job.Cluster == p.Name {
		github := p.Cluster.GitHub(job.Namespace, job.Set)
		page.Run = link.ToRun(github, job.Repository, job.RunID, job.Attempt)
		page.Log = link.ToLog(github, job.Repository, job.RunID, job.JobNumber)
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

// addMachine adds what is known of the node, what the job requested of it besides CPU and memory, and what that cost.
func (page *jobPage) addMachine(rules prices.Rules) {
	for part := range strings.SplitSeq(page.NodeLabels, ",") {
		if name, value, is := strings.Cut(part, "="); is && value != "" {
			page.Machine = append(page.Machine, name+"="+value)
		}
	}
	for part := range strings.SplitSeq(page.ExtendedResources, ",") {
		if name, number, is := strings.Cut(part, "="); is {
			page.Devices = append(page.Devices, device{name, number})
		}
	}
	page.Priced = len(rules) > 0 && !page.Finished.IsZero()
	if page.Job.RunTime() > 0 {
		page.Cost = rules.CostOf(prices.Requests{NodeLabels: page.NodeLabels, NodeType: page.NodeType,
			ExtendedResources: page.ExtendedResources, CPUs: float64(ptr.Deref(page.CPURequestMillis, 0)) / 1000,
			GiB: float64(ptr.Deref(page.MemoryRequestBytes, 0)) / (1 << 30)}, page.Job.RunTime().Hours())
	}
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
