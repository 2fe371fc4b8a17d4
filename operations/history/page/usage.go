package page

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/operations/history/access"
	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/link"
	"github.com/harrier-ci/harrier/operations/history/page/picture"
	"github.com/harrier-ci/harrier/operations/history/page/words"
)

// Rows of the tables of use, at about 600 B each. The API has all.
const (
	usageRows = 50
	sizeRows  = 30
)

// usageRow is the usage of some jobs, with a name and the address at which these jobs are listed.
type usageRow struct {
	ledger.Usage
	Of, Also, Link string
}

// sizeRow has the requests of a job, and what it uses of them.
type sizeRow struct {
	ledger.Size
	CPURequest, MemoryRequest *int64
	Link                      string
}

// groupNames are the names of the properties by which usage is added up.
var groupNames = map[ledger.By]string{ledger.ByRepository: "Repository", ledger.ByWorkflow: "Workflow",
	ledger.ByJob: "Job", ledger.BySet: "Scale set", ledger.ByDay: "Day"}

// usagePage has the content of the page of cost and use.
type usagePage struct {
	By       string
	Choices  []link.Choice
	Rows     []usageRow
	NotShown int
	// Uncosted says what is missing for costs, or for a part of them.
	Uncosted []string
	Unpriced []ledger.Machine
	Budgets  []budgetLine
	// Folded is set if a row has jobs whose names are not kept.
	Folded bool
	Total  ledger.Usage
	Sizes  []sizeRow
	// Elsewhere is set if a part of the work of some jobs is done where nothing measures.
	Elsewhere bool
	// Unmeasured is set if the use of no job is known.
	Unmeasured bool
	MoreSizes  int
	Saving     float64
	Waits      picture.Waits
	Gaps       gapList
	Tables     []link.Table
	Query      url.Values
}

func usage(ctx context.Context, p *pages, r *request) (answer, error) {
	by := cmp.Or(r.By, ledger.ByRepository)
	used, err := p.Ledger.UsageBy(ctx, by, r.Filter, p.Prices)
	if err != nil {
		return answer{}, err
	}
	total, err := p.Ledger.Usage(ctx, ledger.ByAll, r.Filter, p.Prices)
	if err != nil {
		return answer{}, err
	}
	sized := r.Filter
	sized.Now = p.Clock.Now()
	sizes, err := p.Ledger.Sizes(ctx, sized, p.Prices)
	if err != nil {
		return answer{}, err
	}
	waited, err := p.waits(ctx, r.Filter)
	if err != nil {
		return answer{}, err
	}
	gaps, err := p.Ledger.Gaps(ctx, r.Filter)
	if err != nil {
		return answer{}, err
	}
	page := usagePage{By: groupNames[by], Unmeasured: true, Waits: waited, Gaps: listGaps(gaps.Rows), Query: r.query,
		Tables: []link.Table{
			link.ToTable("usage", "Cost and use by "+string(by), r.query, "by", string(by)),
			link.ToTable("waits", "Waits by "+string(by), r.query, "by", string(by)),
			link.ToTable("sizes", "Requests and use", r.query, "by", ""),
			link.ToTable("machines", "Cost by kind of node", r.query, "by", ""), link.ToGaps(r.query, access.Namespace(ctx)),
		}}
	for _, one := range []ledger.By{ledger.ByRepository, ledger.ByWorkflow, ledger.ByJob, ledger.BySet, ledger.ByDay} {
		page.Choices = append(page.Choices, link.Choice{Text: groupNames[one], Chosen: one == by,
			Link: link.To("usage", r.query, "by", string(one))})
	}
	page.Total = total.Rows[0]
	for i := range used[:min(len(used), usageRows)] {
		page.Rows = append(page.Rows, rowOf(&used[i], by, r.query))
	}
	page.Uncosted = uncosted(used, &page.Total, p.Prices)
	if page.Unpriced, err = p.unpriced(ctx, r, &page.Total); err != nil {
		return answer{}, err
	}
	if page.Budgets, err = p.budgets(ctx, r); err != nil {
		return answer{}, err
	}
	page.Folded = slices.ContainsFunc(used, func(u ledger.Usage) bool { return u.Folded() })
	page.NotShown = len(used) - len(page.Rows)
	for i := range sizes.Rows {
		size := &sizes.Rows[i]
		page.Unmeasured = page.Unmeasured && size.Measured == 0
		page.Elsewhere = page.Elsewhere || size.Elsewhere > 0
		page.Saving += max(0, size.Saving)
		if len(page.Sizes) == sizeRows {
			page.MoreSizes++
			continue
		}
		page.Sizes = append(page.Sizes, sizeRow{Size: *size, CPURequest: positive(size.CPURequestMillis),
			MemoryRequest: positive(size.MemoryRequestBytes),
			Link: link.To("jobs", link.Within(r.query), "repository", size.Repository, "workflow", size.Workflow,
				"name", size.Name)})
	}
	return answer{Title: "Cost and use", Main: page}, nil
}

// positive returns nil for 0, which in sums means that nothing is known.
func positive(number int64) *int64 {
	if number == 0 {
		return nil
	}
	return &number
}

// rowOf names a row of use, and leads to its jobs: to all of its scale set, repository or workflow if it has those whose
// names are not kept.
func rowOf(used *ledger.Usage, by ledger.By, query url.Values) usageRow {
	row := usageRow{Usage: *used}
	narrowed := link.To("jobs", query, "by", "")
	if used.Folded() {
		row.Of = fold.Others
		narrow := []string{"by", ""}
		for _, of := range []struct{ name, is string }{{"repository", used.Repository}, {"workflow", used.Workflow}} {
			if of.is != "" && of.is != fold.Others {
				row.Also = of.is
				narrow = append(narrow, of.name, of.is)
			}
		}
		row.Link = link.To("jobs", query, narrow...)
		return row
	}
	switch by {
	case ledger.BySet:
		row.Of, row.Also = used.Set, used.Namespace
		narrowed = link.ToSet(used.Cluster, used.Namespace, used.Set, query)
	case ledger.ByDay:
		row.Of = used.Day.UTC().Format("2006-01-02")
		narrowed = link.To("jobs", query, "by", "", "from", words.Machine(used.Day),
			"to", words.Machine(used.Day.AddDate(0, 0, 1)))
	case ledger.ByRepository:
		row.Of = used.Repository
		narrowed = link.To("jobs", query, "by", "", "repository", used.Repository)
	case ledger.ByWorkflow:
		if row.Of = used.Workflow; !strings.HasPrefix(used.Workflow, used.Repository+"/") {
			row.Also = used.Repository
		}
		narrowed = link.To("jobs", query, "by", "", "repository", used.Repository, "workflow", used.Workflow)
	case ledger.ByJob:
		row.Of, row.Also = used.Name, used.Workflow
		narrowed = link.To("jobs", query, "by", "", "repository", used.Repository, "workflow", used.Workflow,
			"name", used.Name)
	}
	row.Link = narrowed
	return row
}
