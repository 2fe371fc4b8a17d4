package why

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/history/rows"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

// Opener finds the ledger of jobs.
type Opener func(context.Context) (*ledger.Ledger, error)

// pastLimit bounds what the ledger may take: without its answer there is still that of the cluster.
const pastLimit = 20 * time.Second

// past has what the ledger knows of jobs that the cluster has forgotten.
type past struct {
	// Where names the ledger, empty if it was not asked; Problem is the reason why it could not be asked.
	Where   string `json:"where,omitempty"`
	Problem string `json:"problem,omitempty"`

	jobs []ledger.Job
	// cut is set if there are more jobs than are told.
	cut bool
}

// forgotten asks the ledger about jobs of runners that the search has not found: of a run always, and else if nothing
// was found.
func (g *gathering) forgotten(ctx context.Context, open Opener) *past {
	p := &past{}
	if open == nil || g.subject.Run == 0 && len(g.facts) > 0 {
		return p
	}
	ctx, stop := context.WithTimeout(ctx, pastLimit)
	defer stop()
	from, err := open(ctx)
	if err != nil {
		p.Problem = err.Error()
		return p
	}
	p.Where = from.Where
	for _, filter := range g.subject.filters() {
		filter.Set("limit", strconv.Itoa(mostFacts))
		if !g.scope.everywhere {
			filter.Set("namespace", g.scope.namespace)
		}
		jobs, more, err := from.Jobs(ctx, filter)
		if err != nil {
			p.Problem = err.Error()
			return p
		}
		p.cut = p.cut || more
		for i := range jobs {
			g.record(&jobs[i])
			if g.isForgotten(&jobs[i]) && !p.has(&jobs[i]) {
				p.jobs = append(p.jobs, jobs[i])
			}
		}
	}
	return p
}

func (p *past) has(job *ledger.Job) bool {
	return slices.ContainsFunc(p.jobs, func(known ledger.Job) bool { return known.RunnerUID == job.RunnerUID })
}

// filters returns the questions for the ledger, whose filters compare whole values.
func (s *Subject) filters() (filters []url.Values) {
	if s.Run != 0 {
		filters = append(filters, url.Values{"runID": {strconv.FormatInt(s.Run, 10)}})
	}
	if s.Job != "" {
		filters = append(filters, url.Values{"jobID": {s.Job}})
		if lower := strings.ToLower(s.Job); lower != s.Job {
			filters = append(filters, url.Values{"jobID": {lower}})
		}
	}
	if s.Name != "" {
		filters = append(filters, url.Values{"runner": {s.Name}})
		// The pod in which container hooks run the job is named after the runner.
		if name, ofHooks := strings.CutSuffix(s.Name, "-workflow"); ofHooks {
			filters = append(filters, url.Values{"runner": {name}})
		}
	}
	return filters
}

// isForgotten reports whether the user asks about a job of the ledger, and the search has not found its runner.
func (g *gathering) isForgotten(job *ledger.Job) bool {
	if g.subject.Repository != "" && !strings.EqualFold(job.Repository, g.subject.Repository) {
		return false
	}
	return !slices.ContainsFunc(g.facts, func(f *fact) bool {
		switch {
		case f.runner != nil:
			return string(f.runner.UID) == job.RunnerUID || f.namespace == job.Namespace && f.runner.Name == job.Runner
		case f.pod != nil:
			return f.namespace == job.Namespace && f.pod.Name == job.Runner
		}
		return f.waiting.JobID != "" && f.waiting.JobID == job.JobID && job.LostCause == ""
	})
}

// record gives the runner of a job that the search has found the job's row.
func (g *gathering) record(job *ledger.Job) {
	for _, f := range g.facts {
		if f.runner != nil && string(f.runner.UID) == job.RunnerUID {
			f.recorded = job
		}
	}
}

// recall returns the story of a job that the cluster has forgotten.
func recall(job *ledger.Job, where string, now time.Time) Story {
	story := Story{
		From:  "from the ledger at " + where + ": the cluster has forgotten the runner",
		State: Running, knowsRerun: true, Namespace: job.Namespace, ScaleSet: job.Set, Runner: job.Runner, Node: job.Node,
		Job:    Job{job.Name, job.JobID, job.Repository, job.Workflow, ptr.Deref(job.RunID, 0), job.Event},
		Result: job.Result, FinishedAt: job.Finished, Usage: usageOf(job),
	}
	if job.NodeType != "" {
		story.Node += " (" + job.NodeType + ")"
	}
	switch {
	case job.Ending == rows.EndingGaveUp:
		story.State, story.Message = Ended, "it gave up: it ended before it had a runner"
		story.From = "from the ledger at " + where
	case job.LostCause != "":
		story.State, story.Reason, story.Message = Lost, job.LostCause, "the ledger keeps the cause only"
	case job.Result != "" || !job.Finished.IsZero():
		story.State = Ended
		if job.Ending == rows.EndingUnseen {
			story.Message = "nobody saw its end; it was last known to run" + dated(" at ", job.Finished)
			story.FinishedAt = time.Time{}
		}
	case job.Started.IsZero():
		story.State = Starting
	}
	if job.Rerun != "" {
		story.Rerun = &v1alpha1.RerunStatus{State: v1alpha1.RerunState(job.Rerun), Reason: v1alpha1.RerunReason(job.RerunReason),
			Attempt: int(ptr.Deref(cmp.Or(job.RerunAttempt, job.Attempt), 0))}
	}
	story.setPhases(job.Reached(), limitOf(job), now)
	if job.Ending == rows.EndingGaveUp { // no runner was created at its end
		story.Phases = slices.DeleteFunc(story.Phases, func(p Phase) bool { return p.Name == "created" })
	}
	if story.State == Lost {
		story.setSteps(nil)
	}
	return story
}

// usageOf returns as text what a job requested and used, empty if neither is known.
func usageOf(job *ledger.Job) string {
	var parts []string
	add := func(known *int64, text func(int64) string) {
		if known != nil {
			parts = append(parts, text(*known))
		}
	}
	only := ""
	if job.Elsewhere != "" {
		only = " in the runner's container only"
	}
	add(job.CPURequestMillis, func(millis int64) string { return "requested CPU " + ledger.CPU(millis) })
	add(job.MemoryRequestBytes, func(bytes int64) string { return "requested memory " + ledger.Memory(bytes) })
	add(job.CPUAverageMillis(), func(millis int64) string {
		return "used CPU " + ledger.CPU(millis) + " on average" + only
	})
	add(job.PeakMemoryBytes, func(bytes int64) string { return "peak of memory " + ledger.Memory(bytes) + only })
	add(job.OOMKills, func(n int64) string { return fmt.Sprintf("processes killed for lack of memory: %d", n) })
	return strings.Join(parts, ", ")
}

// note returns the text about a ledger that could not be asked, or about jobs that are not told; empty if there is
// nothing to say.
func (p *past) note() string {
	switch {
	case p.Problem != "":
		return "The ledger of jobs could not be asked, so jobs whose runners are gone are missing here: " +
			p.Problem + "."
	case p.cut:
		return fmt.Sprintf("The ledger at %s knows more jobs than the %d that are told here.", p.Where, mostFacts)
	}
	return ""
}

// nothing returns the ledger's part of the message that nothing was found.
func (p *past) nothing() string {
	if p.Problem == "" && p.Where != "" {
		return "The ledger at " + p.Where + " has no such job, either; history.retention says how long it keeps them."
	}
	return cmp.Or(p.note(), "The ledger of jobs was not asked.")
}
