package page

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

const (
	// trendRows are groups in the table, of about 900 B each with their curves; shownChanges is how much is listed that got
	// worse, at 500 B.
	trendRows    = 20
	shownChanges = 20
	// A time that is longer is told by weeks: more days than that are no curve that anybody reads on a phone.
	longestByDay = 45 * 24 * time.Hour
)

// trendRow is a group, with a curve of half of its run times and the address of its own trends.
type trendRow struct {
	ledger.Trend
	Of, Also, Link string
	Curve          picture.Curve
}

// changeRow is something that got worse, in words, with the address of its trends.
type changeRow struct {
	ledger.Change
	Of, Also, Verb, Before, After, Link string
}

// trendsPage has the content of the page of trends.
type trendsPage struct {
	// Changes are listed, NotListed more there are; From and To are the week that they are of.
	Changes   []changeRow
	NotListed int
	From, To  time.Time
	// Every is day or week.
	Every string
	Whole *ledger.Trend
	// Buckets are the days or weeks, the youngest first: the table below the curves.
	Buckets            []ledger.Trend
	Runs, Waits, Fails picture.Curve
	By                 string
	Choices            []link.Choice
	Rows               []trendRow
	Folded             bool
	Gaps               gapList
	Tables             []link.Table
	Query              url.Values
}

// trendNames are the names of the properties by which trends are told apart.
var trendNames = map[ledger.By]string{ledger.ByRepository: "Repository", ledger.ByWorkflow: "Workflow", ledger.ByJob: "Job",
	ledger.ByBranch: "Branch", ledger.ByEvent: "Event", ledger.BySet: "Scale set"}

func trends(ctx context.Context, p *pages, r *request) (answer, error) {
	by, every := cmp.Or(r.By, ledger.ByJob), r.Every
	if r.By == "" && r.Filter.Name != "" {
		by = ledger.ByBranch // of one job something else is of interest
		if r.Filter.Branch+r.Filter.Event != "" {
			by = ledger.BySet
		}
	}
	if every == "" {
		if every = rows.EveryDay; r.window.To.Sub(r.window.From) > longestByDay {
			every = rows.EveryWeek
		}
	}
	page := trendsPage{By: trendNames[by], Every: every, Query: r.query}
	all, err := p.Ledger.Trends(ctx, "", every, r.Filter)
	if err != nil {
		return answer{}, err
	}
	largest := r.Filter
	largest.Limit = trendRows
	grouped, err := p.Ledger.Trends(ctx, by, every, largest)
	if err != nil {
		return answer{}, err
	}
	if err := page.addChanges(ctx, p, r); err != nil {
		return answer{}, err
	}
	gaps, err := p.Ledger.Gaps(ctx, r.Filter)
	if err != nil {
		return answer{}, err
	}
	page.Gaps = listGaps(gaps.Rows)
	page.draw(all.Rows, r.window)
	page.addRows(grouped.Rows, by, r)
	for _, one := range []ledger.By{ledger.ByRepository, ledger.ByWorkflow, ledger.ByJob, ledger.ByBranch, ledger.ByEvent,
		ledger.BySet} {
		if one == ledger.ByEvent && r.Filter.Branch != "" || one == ledger.ByBranch && r.Filter.Event != "" {
			continue // there are no such sums
		}
		page.Choices = append(page.Choices, link.Choice{Text: trendNames[one], Chosen: one == by,
			Link: link.To("trends", r.query, "by", string(one))})
	}
	page.Tables = []link.Table{
		link.ToTable("trends", "All jobs by "+every, r.query, "by", "", "every", every),
		link.ToTable("trends", "By "+string(by)+" and "+every, r.query, "by", string(by), "every", every),
		link.ToTable("changes", "What got worse", r.query, "by", "", "every", "", "from", "", "branch", "", "event", ""),
		link.ToGaps(r.query, access.Namespace(ctx)),
	}
	return answer{Title: "Trends", Main: page}, nil
}

// addChanges adds what got worse of what the filter chooses.
func (t *trendsPage) addChanges(ctx context.Context, p *pages, r *request) error {
	filter := r.Filter
	filter.Now, filter.Branch, filter.Event = r.now, "", "" // a job is compared on all branches
	changes, err := p.Ledger.Changes(ctx, filter)
	if err != nil {
		return err
	}
	changes = slices.DeleteFunc(changes, func(c ledger.Change) bool { return r.Filter.Event != "" && c.Event != r.Filter.Event })
	t.To = r.now.UTC().Truncate(24 * time.Hour)
	if to := r.Filter.To; !to.IsZero() {
		t.To = to.UTC().Truncate(24 * time.Hour)
	}
	t.From = t.To.AddDate(0, 0, -7)
	t.NotListed = max(0, len(changes)-shownChanges)
	for _, change := range changes[:len(changes)-t.NotListed] {
		t.Changes = append(t.Changes, newChangeRow(change, r.query))
	}
	return nil
}

// newChangeRow puts a change into words.
func newChangeRow(change ledger.Change, query url.Values) changeRow {
	row := changeRow{Change: change, Of: change.Name, Also: change.Workflow}
	seconds := func(figure float64) string { return words.Took(time.Duration(figure) * time.Second) }
	switch change.What {
	case rows.Slower:
		row.Verb, row.Before, row.After = "slower", seconds(change.Before), seconds(change.After)
	case rows.FailsMore:
		row.Verb, row.Before, row.After = "fails more", words.Amount(change.Before)+" %", words.Amount(change.After)+" %"
	case rows.WaitsLonger:
		row.Verb, row.Before, row.After = "waits longer", seconds(change.Before), seconds(change.After)
		row.Of, row.Also = change.Set, change.Namespace
		row.Link = link.To("trends", nil, "from", "30d", "cluster", change.Cluster, "namespace", change.Namespace, "set", change.Set)
		return row
	}
	row.Link = link.To("trends", nil, "from", "30d", "cluster", query.Get("cluster"), "namespace", query.Get("namespace"),
		"repository", change.Repository, "workflow", change.Workflow, "name", change.Name, "event", change.Event)
	return row
}

// draw adds the curves of all jobs, and the table of what they show.
func (t *trendsPage) draw(all []ledger.Trend, w picture.Window) {
	if len(all) == 0 {
		return
	}
	t.Whole, t.Buckets = &all[0], slices.Clone(all[1:])
	w = windowOf(all[1:], w)
	t.Runs = picture.NewLines(points(all[1:], func(row *ledger.Trend) []*float64 {
		return []*float64{float(row.RunSecondsP50), float(row.RunSecondsP95)}
	}), w)
	t.Waits = picture.NewLines(points(all[1:], func(row *ledger.Trend) []*float64 {
		return []*float64{float(row.WaitSecondsP50), float(row.WaitSecondsP95)}
	}), w)
	t.Fails = picture.NewBars(points(all[1:], func(row *ledger.Trend) []*float64 {
		return []*float64{percentOf(row.Failed, row.Jobs), percentOf(row.Lost, row.Jobs)}
	}), w)
	slices.Reverse(t.Buckets)
}

// windowOf returns the time of whole days or weeks that curves show.
func windowOf(buckets []ledger.Trend, w picture.Window) picture.Window {
	for i := range buckets {
		if i == 0 && (w.From.IsZero() || buckets[i].From.Before(w.From)) {
			w.From = buckets[i].From
		}
		if buckets[i].To.After(w.To) {
			w.To = buckets[i].To
		}
	}
	return w
}

func points(buckets []ledger.Trend, figures func(*ledger.Trend) []*float64) (all []picture.Point) {
	for i := range buckets {
		all = append(all, picture.Point{From: buckets[i].From, To: buckets[i].To, Figures: figures(&buckets[i])})
	}
	return all
}

func float(number *int64) *float64 {
	if number == nil {
		return nil
	}
	return new(float64(*number))
}

// percentOf returns a share of jobs, nil if there are none.
func percentOf(part, all int64) *float64 {
	if all == 0 {
		return nil
	}
	return new(100 * float64(part) / float64(all))
}

// addRows adds the groups: each has a row of all the time, and those of its days or weeks after it.
func (t *trendsPage) addRows(grouped []ledger.Trend, by ledger.By, r *request) {
	for i := 0; i < len(grouped); {
		next := i + 1
		for next < len(grouped) && grouped[next].Every != rows.EveryAll {
			next++
		}
		row := trendRowOf(&grouped[i], by, r.query)
		buckets := grouped[i+1 : next]
		row.Curve = picture.NewLines(points(buckets, func(bucket *ledger.Trend) []*float64 {
			return []*float64{float(bucket.RunSecondsP50)}
		}), windowOf(buckets, r.window))
		t.Folded = t.Folded || row.Folded()
		t.Rows = append(t.Rows, row)
		i = next
	}
}

// trendRowOf names a group, and leads to its own trends: to none if its names are not kept.
func trendRowOf(of *ledger.Trend, by ledger.By, query url.Values) trendRow {
	row := trendRow{Trend: *of}
	var narrow []string
	switch by {
	case ledger.BySet:
		row.Of, row.Also = of.Set, of.Namespace
		narrow = []string{"cluster", of.Cluster, "namespace", of.Namespace, "set", of.Set}
	case ledger.ByRepository:
		row.Of, narrow = of.Repository, []string{"repository", of.Repository}
	case ledger.ByWorkflow:
		row.Of, narrow = of.Workflow, []string{"repository", of.Repository, "workflow", of.Workflow}
	case ledger.ByBranch:
		row.Of, row.Also, narrow = of.Branch, of.Repository, []string{"repository", of.Repository, "branch", of.Branch}
	case ledger.ByEvent:
		row.Of, narrow = of.Event, []string{"event", of.Event}
	default:
		row.Of, row.Also = of.Name, of.Workflow
		narrow = []string{"repository", of.Repository, "workflow", of.Workflow, "name", of.Name}
	}
	if row.Of == "" {
		row.Of = "(unknown)"
		return row
	}
	if of.Folded() {
		row.Of, row.Also = fold.Others, strings.TrimPrefix(row.Also, fold.Others)
		return row
	}
	row.Link = link.To("trends", query, append(narrow, "by", "")...)
	return row
}
