package rows

import (
	"cmp"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/operations/history/fold"
)

// The times of which a row of trends is.
const (
	EveryDay  = "day"
	EveryWeek = "week"
	EveryAll  = "all"
)

// Trend has what the jobs of a group came to that finished in a day, a week or all of the time that was asked about.
type Trend struct {
	Group

	// Branch and Event are set if jobs are added up by them, or chosen.
	Branch string `json:"branch,omitempty"`
	Event  string `json:"event,omitempty"`

	// Every is one of the Every… words. Days begin at midnight, weeks on Thursday, in UTC.
	Every string    `json:"every"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`

	Jobs      int64 `json:"jobs"`
	Succeeded int64 `json:"succeeded"`
	// Failed are those that failed by themselves: lost ones are in Lost alone.
	Failed   int64 `json:"failed"`
	Canceled int64 `json:"canceled"`
	Lost     int64 `json:"lost"`

	// Half of the jobs that succeeded, and 95 of 100, ran no longer than these: at most 5 % too large, nil if nobody knows.
	JobsWithKnownRunTime int64  `json:"jobsWithKnownRunTime"`
	RunSecondsP50        *int64 `json:"runSecondsP50,omitempty"`
	RunSecondsP95        *int64 `json:"runSecondsP95,omitempty"`
	// The same of what jobs waited for a runner, however they ended.
	JobsWithKnownWait int64  `json:"jobsWithKnownWait"`
	WaitSecondsP50    *int64 `json:"waitSecondsP50,omitempty"`
	WaitSecondsP95    *int64 `json:"waitSecondsP95,omitempty"`
}

// Folded reports whether the row has jobs whose names, branches or events are not kept.
func (t *Trend) Folded() bool {
	return t.Group.Folded() || slices.Contains([]string{t.Branch, t.Event}, fold.Others)
}

// FailedPercent is the share of failed jobs among those that succeeded or failed by themselves, nil if none did.
func (t *Trend) FailedPercent() *float64 {
	if t.Succeeded+t.Failed == 0 {
		return nil
	}
	return new(100 * float64(t.Failed) / float64(t.Succeeded+t.Failed))
}

// What has changed.
const (
	// Slower: half of the jobs that succeeded ran no longer than so many seconds.
	Slower = "Slower"
	// FailsMore: so many of 100 jobs failed by themselves.
	FailsMore = "FailsMore"
	// WaitsLonger: 95 of 100 jobs of a scale set waited no longer than so many seconds.
	WaitsLonger = "WaitsLonger"
)

// Changes are all of these words.
var Changes = []string{Slower, FailsMore, WaitsLonger}

// Change is something that was worse in the last seven days than in the 21 days before, by more than chance explains.
type Change struct {
	Group

	// Event is that of the jobs: a job is compared with itself at the same event.
	Event string `json:"event,omitempty"`
	// What is one of the words above, which say what Before and After are.
	What   string  `json:"what"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// From is the begin of the seven days, To their end.
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	JobsBefore int64     `json:"jobsBefore"`
	JobsAfter  int64     `json:"jobsAfter"`
}

// CompareChanges orders changes: by kind, and then those first whose jobs took, waited or failed most beyond what was
// usual.
func CompareChanges(a, b Change) int {
	beyond := func(c *Change) float64 { return (c.After - c.Before) * float64(c.JobsAfter) }
	return cmp.Or(cmp.Compare(slices.Index(Changes, a.What), slices.Index(Changes, b.What)), cmp.Compare(beyond(&b), beyond(&a)),
		cmp.Compare(a.Cluster+a.Namespace+a.Set, b.Cluster+b.Namespace+b.Set),
		cmp.Compare(a.Repository+a.Workflow+a.Name+a.Event, b.Repository+b.Workflow+b.Name+b.Event))
}
