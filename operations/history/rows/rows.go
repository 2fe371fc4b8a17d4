// Package rows has what the ledger keeps of a job and what many jobs come to, as its API answers: one form for those
// who write the answers and those who read them, without a database.
package rows

import (
	"slices"
	"time"

	"github.com/harrier-ci/harrier/operations/history/fold"
)

// Group has what is common to jobs that are added up together. Only the fields by which they are added up are set; Day
// for ByDay.
type Group struct {
	Cluster    string    `json:"cluster,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Set        string    `json:"set,omitempty"`
	Repository string    `json:"repository,omitempty"`
	Workflow   string    `json:"workflow,omitempty"`
	Name       string    `json:"name,omitempty"`
	Day        time.Time `json:"day,omitzero"`
}

// Folded reports whether the group has jobs whose names are not kept.
func (g *Group) Folded() bool {
	return slices.Contains([]string{g.Set, g.Repository, g.Workflow, g.Name}, fold.Others)
}

// Usage is the sum of jobs that have finished.
type Usage struct {
	Group

	Jobs      int64 `json:"jobs"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	Canceled  int64 `json:"canceled"`
	Lost      int64 `json:"lost"`

	// RunHours are from the start of jobs to their end. The requested hours are these hours times the requests of the
	// pods.
	RunHours           float64 `json:"runHours"`
	CPUHoursRequested  float64 `json:"cpuHoursRequested"`
	GiBHoursRequested  float64 `json:"gibHoursRequested"`
	CPUHoursUsed       float64 `json:"cpuHoursUsed"`
	JobsWithKnownUsage int64   `json:"jobsWithKnownUsage"`

	// Waits has the seconds that jobs waited on average until they reached a phase, from the phase before;
	// JobsWithKnownWait is the number of jobs of which that is known.
	Waits             map[string]float64 `json:"waits,omitempty"`
	JobsWithKnownWait int64              `json:"jobsWithKnownWait"`

	// Cost is that of the requests, by the prices of the call, as far as one is known; UnpricedHours are those of RunHours
	// that no price is known of.
	Cost          float64 `json:"cost"`
	UnpricedHours float64 `json:"unpricedHours"`
}

// Machine is a kind of machine on which jobs have run that have finished, as far as prices depend on it.
type Machine struct {
	// NodeLabels are as those of a job, empty if nobody has seen the node; ExtendedResources are the names of those that the
	// jobs requested.
	NodeLabels        string  `json:"nodeLabels"`
	ExtendedResources string  `json:"extendedResources"`
	RunHours          float64 `json:"runHours"`
	// Priced says whether a rule prices it, and Cost is that of the requests then.
	Priced bool    `json:"priced"`
	Cost   float64 `json:"cost"`
}

// Spending is what has been spent of a budget in a calendar month, in UTC, on the jobs that finished in it. A month that
// is not over is compared with the whole budget all the same.
type Spending struct {
	// Repository or Namespace is what the budget is of.
	Repository string `json:"repository,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	// Month is its begin.
	Month    time.Time `json:"month"`
	PerMonth float64   `json:"perMonth"`
	// Cost is what is known to be spent; of UnpricedHours of RunHours no price is known.
	Cost          float64 `json:"cost"`
	RunHours      float64 `json:"runHours"`
	UnpricedHours float64 `json:"unpricedHours"`
}

// Of is what the budget is of.
func (s *Spending) Of() string {
	if s.Repository != "" {
		return s.Repository
	}
	return "namespace " + s.Namespace
}

// Unknown is the share of the hours of which no price is known, 0 to 1.
func (s *Spending) Unknown() float64 { return share(s.UnpricedHours, s.RunHours) }

// Unknown is the share of the hours of which no price is known, 0 to 1.
func (u *Usage) Unknown() float64 { return share(u.UnpricedHours, u.RunHours) }

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, part/whole)
}

// WholeWait stands in the place of a phase for all of them together.
const WholeWait = "all"

// Wait has the times that jobs which have finished waited for one phase, from the phase before.
type Wait struct {
	Group

	// Phase is the phase that they waited for, phases.Limited for the time during which their scale set was at a limit, or
	// WholeWait.
	Phase string `json:"phase"`
	// LimitedReason names the limit, and LimitNumber is its number, if it has one: each limit has a row.
	LimitedReason string `json:"limitedReason,omitempty"`
	LimitNumber   *int64 `json:"limitNumber,omitempty"`
	// Jobs is the number of jobs of which that is known.
	Jobs int64 `json:"jobs"`
	// MeanSeconds is what each job of the group waited on average, also jobs that didn't wait for this phase: those of the
	// phases and limits add up to that of WholeWait.
	MeanSeconds float64 `json:"secondsMean"`
	// Half of the jobs, and 95 of 100, waited no longer than these: at most 5 % too large.
	P50Seconds int64 `json:"secondsP50"`
	P95Seconds int64 `json:"secondsP95"`
}

// Size has the requests of a workflow's job, and what it uses of them by the figures that feedback.jobLog has left of
// its runs.
type Size struct {
	Cluster    string `json:"cluster"`
	Namespace  string `json:"namespace"`
	Set        string `json:"set"`
	Repository string `json:"repository"`
	Workflow   string `json:"workflow"`
	Name       string `json:"name"`

	// Jobs is the number of jobs that have finished, Measured of those whose use is known.
	Jobs     int64 `json:"jobs"`
	Measured int64 `json:"measured"`
	// Elsewhere is the number of jobs of which a part of the work was done where nothing measures. Then no use is told, and
	// nothing is saved: what is measured can't be compared with the requests.
	Elsewhere int64   `json:"elsewhere,omitempty"`
	RunHours  float64 `json:"runHours"`

	// The requests are the largest that a pod of these jobs had.
	CPURequestMillis   int64 `json:"cpuRequestMillis"`
	MemoryRequestBytes int64 `json:"memoryRequestBytes"`

	// The 95th percentiles, at most 5 % too large, nil or, of older ledgers, 0 if nothing is known.
	PeakMemoryBytes  *int64 `json:"peakMemoryBytesP95,omitempty"`
	CPUAverageMillis *int64 `json:"cpuAverageMillisP95,omitempty"`
	ThrottledPercent *int64 `json:"throttledPercentP95,omitempty"`

	// MemoryFitBytes is a request of memory, and a limit, that no job of at least the last 14 days would have exceeded: their
	// largest peak and a margin. It is nil where that can't be known: of few jobs, of a shorter time, if the use of one that
	// GitHub saw end is not known, if one was short of memory, or if nothing measures all of their work.
	MemoryFitBytes *int64 `json:"memoryFitBytes,omitempty"`
	// ShortOfMemory is the number of jobs that lost a process or their pod for lack of memory.
	ShortOfMemory int64 `json:"shortOfMemory,omitempty"`

	// With requests as large as those percentiles the same time would have cost less by Saving, by the prices of the call.
	// Saving is negative for jobs that use more than they request, and 0 if nothing is known.
	Saving float64 `json:"saving"`
}

// Gap is a time in which nobody looked: jobs that began and whose runners were gone within it are in no row.
type Gap struct {
	Cluster string    `json:"cluster"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	// Reason is one of the Gap… words.
	Reason string `json:"reason"`
}

// Why there is a gap.
const (
	// GapStopped: no ledger ran.
	GapStopped = "Stopped"
	// GapClockSetBack: the clock was earlier than at the last run of a ledger, so the length of the gap is not known; the
	// times are the two that were read.
	GapClockSetBack = "ClockSetBack"
	// GapOverflow: the database was away, or its disk full, for so long that more reports came than are remembered.
	GapOverflow = "Overflow"
)

// Part is a page of a table. Pages fit together as long as nothing is written into their time.
type Part[T any] struct {
	Rows []T
	// Next is the place at which the next page begins, empty if this is the last page.
	Next string
	// Total is the number of rows on all pages, or of groups that have several rows each: what the limit of a page counts.
	// It is 0 if it was not counted, as nobody asked for pages, or if the page is behind the last one.
	Total int64
}

// Page returns what a page has.
func (p Part[T]) Page() (rows any, next string, total int64) { return p.Rows, p.Next, p.Total }
