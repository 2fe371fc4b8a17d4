package page

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// At most maxSets scale sets are shown, at about 1.5 KB each; those with most waiting jobs come first.
const maxSets = 50

// overviewPage has the content of the first page.
type overviewPage struct {
	Sentence         sentence
	Sets             []setRow
	All, NotShown    int
	Running, Waiting int64
	Limited          int
	// Longest are the jobs that have waited longest. Of those that wait MoreWaiting have names besides, and Unnamed none
	// that anybody here knows.
	Longest     []waitingRow
	MoreWaiting int
	Unnamed     int64
	Lost        []ledger.Job
	Waits       picture.Waits
	Gaps        gapList
	Tables      []link.Table
	Query       url.Values
	Strips      string
}

// sampledWindow returns the part of the request's time for which samples are kept.
func sampledWindow(r *request) picture.Window {
	const kept = 48 * time.Hour
	w := r.window
	if oldest := w.To.Add(-kept); w.From.Before(oldest) {
		w.From = oldest
	}
	return w
}

func overview(ctx context.Context, p *pages, r *request) (answer, error) {
	filter := r.Filter
	sets, err := p.sets(ctx, r, ledger.Filter{Cluster: filter.Cluster, Namespace: filter.Namespace, Set: filter.Set})
	if err != nil {
		return answer{}, err
	}
	used, err := p.Ledger.UsageBy(ctx, ledger.BySet, filter, p.Prices)
	if err != nil {
		return answer{}, err
	}
	gaps, err := p.Ledger.Gaps(ctx, filter)
	if err != nil {
		return answer{}, err
	}
	waited, err := p.waits(ctx, filter)
	if err != nil {
		return answer{}, err
	}
	filter.Lost, filter.Limit = true, 5
	lost, err := p.Ledger.Jobs(ctx, filter)
	if err != nil {
		return answer{}, err
	}
	w := sampledWindow(r)
	page := overviewPage{Lost: lost.Jobs, Waits: waited, Gaps: listGaps(gaps.Rows), Query: r.query,
		Strips: words.Hours(w.To.Sub(w.From))}
	page.Tables = []link.Table{
		link.ToTable("sets", "Scale sets as they look now", nil), link.ToTable("samples", "Scale sets over time", r.query),
		link.ToTable("usage", "Jobs by scale set", r.query, "by", "set"),
		link.ToTable("waits", "Waits by scale set", r.query, "by", "set"), link.ToGaps(r.query, access.Namespace(ctx)),
	}
	page.Sets = setRows(sets, r.query)
	for i := range page.Sets {
		s := &page.Sets[i]
		page.Running, page.Waiting = page.Running+s.Running, page.Waiting+s.Waiting
		if s.LimitedReason != "" {
			page.Limited++
		}
	}
	page.Sentence = newSentence(page.Sets)
	if p.Cluster != nil && r.Filter.To.IsZero() {
		page.Longest, page.MoreWaiting = longestWaiting(p.Cluster, p.Name, page.Sets,
			func(int64) bool { return true })
		page.Unnamed = max(0, page.Waiting-int64(len(page.Longest)+page.MoreWaiting))
	}
	if page.All = len(page.Sets); page.All > maxSets {
		page.Sets, page.NotShown = page.Sets[:maxSets], page.All-maxSets
	}
	return answer{Title: "Scale sets", Main: page}, p.addStrips(ctx, r, page.Sets, used, gaps.Rows)
}

// addStrips adds to each set a picture of its samples over time, and the usage of its jobs.
func (p *pages) addStrips(
	ctx context.Context, r *request, rows []setRow, used []ledger.Usage, gaps []ledger.Gap,
) error {
	w := sampledWindow(r)
	for i := range rows {
		row := &rows[i]
		samples, err := p.Ledger.Samples(ctx, ledger.Filter{Cluster: row.Cluster, Namespace: row.Namespace, Set: row.Set,
			From: w.From, To: w.To})
		if err != nil {
			return err
		}
		row.Strip = picture.NewStrip(samples.Rows, gapsOf(gaps, row.Cluster), w)
		for u := range used {
			if used[u].Cluster == row.Cluster && used[u].Namespace == row.Namespace && used[u].Set == row.Set {
				row.Usage = used[u]
			}
		}
	}
	return nil
}

func gapsOf(gaps []ledger.Gap, cluster string) (of []ledger.Gap) {
	for i := range gaps {
		if gaps[i].Cluster == cluster {
			of = append(of, gaps[i])
		}
	}
	return of
}

// causeRow has the number of jobs that were lost to a cause.
type causeRow struct {
	Cause, Meaning, Link string
	Jobs                 int
	Last                 ledger.Job
}

// setPage has the content of the page of one scale set.
type setPage struct {
	setRow
	Limit *limit
	Now   watch.Now
	// Jobless are the jobs that no runner has.
	Jobless  []waitingRow
	Here     bool
	Waits    picture.Waits
	Timeline picture.Timeline
	// Drawn is the begin of the timeline if more jobs started than it shows.
	Drawn time.Time
	Jobs  []ledger.Job
	// Runs are jobs that run now; MoreRuns leads to further ones.
	Runs     []ledger.Job
	MoreRuns string
	// More leads to all jobs, and is empty if they are all shown.
	More     string
	Causes   []causeRow
	Failed   string
	Gaps     gapList
	Commands []string
	Tables   []link.Table
	Query    url.Values
}

// limit is what keeps a scale set from running more jobs.
type limit struct {
	// Reason is one word; Message explains it, and is empty if only the word is known. Fix is what to do about it, and Who
	// does it. Broken is set if it ends only after that.
	Reason, Message, Fix, Who string
	Broken                    bool
	// Requests and Labels are what a node must have for the pod that has waited for one longest.
	Requests, Labels []watch.Need
}

// limitOf returns what limits a set: the doctor's finding of now or, for another cluster or a time that is over, the
// meaning of the word in the ledger.
func limitOf(page *setPage) *limit {
	l := limit{Reason: page.LimitedReason}
	switch found := page.Now.Limit; {
	case found != nil:
		l = limit{Reason: found.Reason, Message: found.Message, Fix: found.Fix}
		for _, need := range page.Now.Needs {
			if need.Kind == watch.Label {
				l.Labels = append(l.Labels, need)
			} else {
				l.Requests = append(l.Requests, need)
			}
		}
	case page.Here || l.Reason == "":
		return nil
	default:
		l.Fix = meaning.OfRunner(l.Reason)
	}
	if who := meaning.For(l.Reason).Actor; who != meaning.Nobody {
		l.Who, l.Broken = who.String(), words.Severity(l.Reason) == words.Problem
	}
	return &l
}

const (
	// drawnJobs are in the timeline, of about 200 B each; listedJobs of them are in the table below it as well.
	drawnJobs  = 200
	listedJobs = 50
	// shownRuns are listed as running now.
	shownRuns = 30
	// maxLost bounds the jobs from which causes are counted.
	maxLost = 1000
)

func oneSet(ctx context.Context, p *pages, r *request) (answer, error) {
	filter := r.Filter
	if filter.Set == "" || filter.Namespace == "" {
		return answer{}, &ledger.FilterError{Field: "set", Value: filter.Set,
			Want: "the name of a scale set, with its namespace"}
	}
	page := setPage{Query: r.query}
	page.Cluster, page.Namespace, page.Set = filter.Cluster, filter.Namespace, filter.Set
	gaps, err := p.Ledger.Gaps(ctx, filter)
	if err != nil {
		return answer{}, err
	}
	used, err := p.Ledger.UsageBy(ctx, ledger.BySet, filter, p.Prices)
	if err != nil {
		return answer{}, err
	}
	if page.Waits, err = p.waits(ctx, filter); err != nil {
		return answer{}, err
	}
	if err := p.addNow(ctx, r, &page); err != nil {
		return answer{}, err
	}
	row := []setRow{page.setRow}
	if err := p.addStrips(ctx, r, row, used, gaps.Rows); err != nil {
		return answer{}, err
	}
	page.setRow, page.Gaps = row[0], listGaps(gaps.Rows)
	page.Limit = limitOf(&page)
	filter.Limit = drawnJobs
	jobs, err := p.Ledger.Jobs(ctx, filter)
	if err != nil {
		return answer{}, err
	}
	drawn := r.window
	if jobs.Next != "" { // the oldest of them is the last
		drawn.From = jobs.Jobs[len(jobs.Jobs)-1].At.Truncate(time.Minute)
		page.Drawn = drawn.From
	}
	page.Timeline = picture.NewTimeline(jobs.Jobs, gapsOf(gaps.Rows, page.Cluster), drawn, r.window.To)
	if page.Jobs = jobs.Jobs; len(page.Jobs) > listedJobs || jobs.Next != "" {
		page.Jobs, page.More = page.Jobs[:min(len(page.Jobs), listedJobs)], link.To("jobs", r.query)
	}
	if err := p.addRuns(ctx, &page); err != nil {
		return answer{}, err
	}
	filter.Limit, filter.Lost = maxLost, true
	lost, err := p.Ledger.Jobs(ctx, filter)
	if err != nil {
		return answer{}, err
	}
	page.Causes = countCauses(lost.Jobs, r.query)
	page.Failed = link.To("jobs", r.query, "result", "failed")
	page.Commands = setCommands(page.Namespace, page.Set)
	page.Tables = []link.Table{link.ToTable("jobs", "Jobs", r.query),
		link.ToTable("samples", "The scale set over time", r.query),
		link.ToTable("usage", "What its jobs come to", r.query, "by", "set"),
		link.ToTable("waits", "What its jobs waited for", r.query, "by", "set"),
		link.ToGaps(r.query, access.Namespace(ctx))}
	return answer{words.Foreign(page.Set), []link.Choice{
		{Text: "Scale sets", Link: link.To("overview", link.Within(r.query))},
		{Text: words.Foreign(page.Namespace), Link: link.To("overview", link.Within(r.query), "namespace", page.Namespace)},
	}, page}, nil
}

// addRuns adds the jobs that run now, if the set is in the cluster of this ledger.
func (p *pages) addRuns(ctx context.Context, page *setPage) error {
	if !page.Here {
		return nil
	}
	running, err := p.Ledger.Jobs(ctx, ledger.Filter{Cluster: p.Name, Namespace: page.Namespace, Set: page.Set, Running: true,
		Limit: shownRuns})
	if page.Runs = running.Jobs; running.Next != "" {
		page.MoreRuns = link.To("jobs", nil, "namespace", page.Namespace, "set", page.Set, "running", "true", "from", "90d")
	}
	return err
}

// addNow adds the state of the set and, if the set is in the cluster of this ledger, what it waits for.
func (p *pages) addNow(ctx context.Context, r *request, page *setPage) error {
	sets, err := p.sets(ctx, r, ledger.Filter{Cluster: page.Cluster, Namespace: page.Namespace, Set: page.Set})
	if err != nil {
		return err
	}
	page.Silent = len(sets) == 0
	if !page.Silent {
		page.Sample = sets[len(sets)-1]
	}
	page.Here = p.Cluster != nil && r.Filter.To.IsZero() && (page.Cluster == p.Name || page.Cluster == "")
	if page.Here {
		page.Now = p.Cluster.Now(page.Namespace, page.Set)
		for _, job := range page.Now.Waiting {
			page.Jobless = append(page.Jobless, newWaitingRow(job, &page.setRow, nil))
		}
		apart(page.Jobless)
	}
	return nil
}

// countCauses counts jobs by the cause that they were lost to. The jobs are ordered from the youngest.
func countCauses(lost []ledger.Job, query url.Values) (rows []causeRow) {
	for i := range lost {
		known := slices.IndexFunc(rows, func(row causeRow) bool { return row.Cause == lost[i].LostCause })
		if known < 0 {
			known = len(rows)
			rows = append(rows, causeRow{Cause: lost[i].LostCause, Meaning: meaning.OfLoss(v1alpha1.LostCause(lost[i].LostCause)).Meaning, Last: lost[i],
				Link: link.To("jobs", query, "lostCause", lost[i].LostCause)})
		}
		rows[known].Jobs++
	}
	slices.SortStableFunc(rows, func(a, b causeRow) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return rows
}

func setCommands(namespace, set string) []string {
	if !link.IsName(namespace) || !link.IsName(set) {
		return nil
	}
	return []string{
		"kubectl harrier doctor --namespace " + namespace,
		"kubectl --namespace " + namespace + " describe autoscalingrunnerset " + set,
	}
}
