package page

import (
	"cmp"
	"context"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/doctor/diagnosis"
	"github.com/harrier-ci/harrier/internal/history/ledger"
	"github.com/harrier-ci/harrier/internal/history/page/link"
	"github.com/harrier-ci/harrier/internal/history/page/picture"
	"github.com/harrier-ci/harrier/internal/history/page/words"
	"github.com/harrier-ci/harrier/internal/history/watch"
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

// At most maxSets scale sets are shown, at about 1.5 KB each; those with most waiting jobs come first.
const maxSets = 50

// overviewPage has the content of the first page.
type overviewPage struct {
	Sets             []setRow
	All, NotShown    int
	Running, Waiting int64
	Limited          int
	Lost             []ledger.Job
	Waits            picture.Waits
	Gaps             gapList
	Tables           []link.Table
	Query            url.Values
	Strips           string
}

// A set's sample may be late by sampleSlack; questions for samples look ledger.SampleInterval further back by
// themselves. A set without any sample is gone, or nobody looks.
const sampleSlack = 5 * time.Minute

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
	samples, err := p.Ledger.Samples(ctx, ledger.Filter{Cluster: filter.Cluster, Namespace: filter.Namespace,
		Set: filter.Set, From: r.window.To.Add(-sampleSlack), To: filter.To})
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
	page := overviewPage{Lost: lost.Jobs, Waits: waited, Gaps: listGaps(gaps), Query: r.query,
		Strips: words.Hours(w.To.Sub(w.From))}
	page.Tables = []link.Table{
		link.ToTable("sets", "Scale sets as they look now", nil), link.ToTable("samples", "Scale sets over time", r.query),
		link.ToTable("usage", "Jobs by scale set", r.query, "by", "set"),
		link.ToTable("waits", "Waits by scale set", r.query, "by", "set"), link.ToTable("gaps", "Gaps", link.Within(r.query)),
	}
	for i := range samples {
		s := &samples[i]
		if i+1 < len(samples) && samples[i+1].Cluster == s.Cluster && samples[i+1].Namespace == s.Namespace &&
			samples[i+1].Set == s.Set {
			continue // a later one follows
		}
		page.Running, page.Waiting = page.Running+s.Running, page.Waiting+s.Waiting
		if s.LimitedReason != "" {
			page.Limited++
		}
		page.Sets = append(page.Sets, setRow{Sample: *s, Link: link.ToSet(s.Cluster, s.Namespace, s.Set, r.query)})
	}
	slices.SortStableFunc(page.Sets, func(a, b setRow) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), limitedFirst(&a, &b), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Set, b.Set), cmp.Compare(a.Cluster, b.Cluster))
	})
	if page.All = len(page.Sets); page.All > maxSets {
		page.Sets, page.NotShown = page.Sets[:maxSets], page.All-maxSets
	}
	return answer{Title: "Scale sets", Main: page}, p.addStrips(ctx, r, page.Sets, used, gaps)
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
		row.Strip = picture.NewStrip(samples, gapsOf(gaps, row.Cluster), w)
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
	Limit    *limit
	Now      watch.Now
	Here     bool
	Waits    picture.Waits
	Timeline picture.Timeline
	// Drawn is the begin of the timeline if more jobs started than it shows.
	Drawn time.Time
	Jobs  []ledger.Job
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
	// does it.
	Reason, Message, Fix, Who string
	// Requests and Labels are what a node must have for the pod that has waited for one longest.
	Requests, Labels []watch.Need
}

// setByHand is about limits that somebody has set, which are no failures.
var setByHand = map[string]string{
	v1alpha1.ReasonMaxRunnersReached: "raise the limit that is reached: maxRunners, that of an open schedule, or the " +
		"controller's; the commands below name it",
	v1alpha1.ReasonMaxRunnersZero: "raise maxRunners, or wait for the end of the schedule that allows no runner",
	v1alpha1.ReasonDrained:        "have it take jobs again with kubectl harrier resume",
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
		l.Fix = setByHand[l.Reason]
		if l.Fix == "" {
			l.Fix, _ = diagnosis.Advice(l.Reason)
		}
	}
	if who := diagnosis.WhoActs(l.Reason); who != causes.Nobody {
		l.Who = who.String()
	}
	return &l
}

const (
	// drawnJobs are in the timeline, of about 200 B each; listedJobs of them are in the table below it as well.
	drawnJobs  = 200
	listedJobs = 50
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
	if err := p.addStrips(ctx, r, row, used, gaps); err != nil {
		return answer{}, err
	}
	page.setRow, page.Gaps = row[0], listGaps(gaps)
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
	page.Timeline = picture.NewTimeline(jobs.Jobs, gapsOf(gaps, page.Cluster), drawn, r.window.To)
	if page.Jobs = jobs.Jobs; len(page.Jobs) > listedJobs || jobs.Next != "" {
		page.Jobs, page.More = page.Jobs[:min(len(page.Jobs), listedJobs)], link.To("jobs", r.query)
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
		link.ToTable("gaps", "Gaps", link.Within(r.query))}
	return answer{words.Foreign(page.Set), []link.Choice{
		{Text: "Scale sets", Link: link.To("overview", link.Within(r.query))},
		{Text: words.Foreign(page.Namespace), Link: link.To("overview", link.Within(r.query), "namespace", page.Namespace)},
	}, page}, nil
}

// addNow adds the state of the set and, if the set is in the cluster of this ledger, what it waits for.
func (p *pages) addNow(ctx context.Context, r *request, page *setPage) error {
	samples, err := p.Ledger.Samples(ctx, ledger.Filter{Cluster: page.Cluster, Namespace: page.Namespace, Set: page.Set,
		From: r.window.To.Add(-sampleSlack), To: r.Filter.To})
	if err != nil {
		return err
	}
	page.Silent = len(samples) == 0
	if !page.Silent {
		page.Sample = samples[len(samples)-1]
	}
	page.Here = p.Cluster != nil && r.Filter.To.IsZero() && (page.Cluster == p.Name || page.Cluster == "")
	if page.Here {
		page.Now = p.Cluster.Now(page.Namespace, page.Set)
	}
	return nil
}

// countCauses counts jobs by the cause that they were lost to. The jobs are ordered from the youngest.
func countCauses(lost []ledger.Job, query url.Values) (rows []causeRow) {
	for i := range lost {
		known := slices.IndexFunc(rows, func(row causeRow) bool { return row.Cause == lost[i].LostCause })
		if known < 0 {
			known = len(rows)
			rows = append(rows, causeRow{Cause: lost[i].LostCause, Meaning: words.LostMeaning(lost[i].LostCause), Last: lost[i],
				Link: link.To("jobs", query, "lostCause", lost[i].LostCause)})
		}
		rows[known].Jobs++
	}
	slices.SortStableFunc(rows, func(a, b causeRow) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return rows
}

// objectName matches texts that need no quotes in a shell: names of Kubernetes' objects, and GitHub's ids of jobs.
var objectName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]{0,251}[A-Za-z0-9])?$`)

func setCommands(namespace, set string) []string {
	if !objectName.MatchString(namespace) || !objectName.MatchString(set) {
		return nil
	}
	return []string{
		"kubectl harrier doctor --namespace " + namespace,
		"kubectl --namespace " + namespace + " describe autoscalingrunnerset " + set,
	}
}
