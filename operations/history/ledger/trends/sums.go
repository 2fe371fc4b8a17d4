// Package trends has what is counted of jobs to tell whether they get slower, fail more or wait longer: how they ended,
// and how often they ran and waited how long, of each job by event and by branch; and the rule by which a change counts
// as one. It is pure.
package trends

import (
	"iter"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/history/fold"
	"github.com/harrier-ci/harrier/operations/history/histogram"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Sums are those of the jobs of one kind.
type Sums struct {
	Jobs, Succeeded, Failed, Canceled, Lost int64
	// Runs has the seconds that jobs ran which succeeded: a job that fails or is cancelled ends at any time. Waits has
	// those that jobs waited for a runner.
	Runs, Waits histogram.Histogram
}

// Count counts a job.
func (s *Sums) Count(job *rows.Job) {
	s.Jobs++
	switch {
	case job.LostCause != "":
		s.Lost++
	case job.Result == "succeeded":
		s.Succeeded++
		if run := job.RunTime(); run > 0 {
			s.Runs.Add(int64(run / time.Second))
		}
	case job.Result == "failed":
		s.Failed++
	case job.Result == "canceled":
		s.Canceled++
	}
	waits, whole := job.Waits(), time.Duration(0)
	for _, wait := range waits {
		whole += wait.Took
	}
	if len(waits) > 0 {
		s.Waits.Add(int64(whole / time.Second))
	}
}

// Merge adds sums.
func (s *Sums) Merge(more *Sums) {
	s.Jobs, s.Succeeded, s.Failed = s.Jobs+more.Jobs, s.Succeeded+more.Succeeded, s.Failed+more.Failed
	s.Canceled, s.Lost = s.Canceled+more.Canceled, s.Lost+more.Lost
	s.Runs.Include(more.Runs)
	s.Waits.Include(more.Waits)
}

// Numbers returns the numbers, in the order of the database's columns.
func (s *Sums) Numbers() []*int64 {
	return []*int64{&s.Jobs, &s.Succeeded, &s.Failed, &s.Canceled, &s.Lost}
}

// Row returns the row of these sums, without its names and times.
func (s *Sums) Row() rows.Trend {
	t := rows.Trend{Jobs: s.Jobs, Succeeded: s.Succeeded, Failed: s.Failed, Canceled: s.Canceled, Lost: s.Lost,
		JobsWithKnownRunTime: s.Runs.Count(), JobsWithKnownWait: s.Waits.Count()}
	if t.JobsWithKnownRunTime > 0 {
		t.RunSecondsP50, t.RunSecondsP95 = new(s.Runs.Quantile(0.5)), new(s.Runs.Quantile(0.95))
	}
	if t.JobsWithKnownWait > 0 {
		t.WaitSecondsP50, t.WaitSecondsP95 = new(s.Waits.Quantile(0.5)), new(s.Waits.Quantile(0.95))
	}
	return t
}

// The properties by which jobs of a name are told apart, and that of the sums of a whole scale set.
const (
	ByEvent  = "event"
	ByBranch = "branch"
	OfSet    = "set"
)

// Kind is what is common to jobs of a scale set that are added up together: Value is their event or branch. Of a whole
// set only the property is not empty.
type Kind struct{ Property, Repository, Workflow, Name, Value string }

// Kinds are the sums of a scale set in a period. Events and branches are bounded each for itself: branches never repeat,
// events do.
type Kinds struct {
	by    map[string]*fold.Kinds[*Sums]
	whole *Sums
}

// bounds has a kind count by its jobs.
var bounds = fold.Rules[*Sums]{
	New: func() *Sums { return &Sums{} }, Merge: (*Sums).Merge, Weight: func(of *Sums) int64 { return of.Jobs },
}

// New returns no kinds, of which at most so many are kept by event, and as many by branch.
func New(most int) *Kinds {
	return &Kinds{by: map[string]*fold.Kinds[*Sums]{ByEvent: fold.New(most, bounds), ByBranch: fold.New(most, bounds)},
		whole: &Sums{}}
}

// Count counts a job.
func (k *Kinds) Count(job *rows.Job) {
	k.whole.Count(job)
	k.Of(Kind{ByEvent, job.Repository, job.Workflow, job.Name, job.Event}).Count(job)
	k.Of(Kind{ByBranch, job.Repository, job.Workflow, job.Name, BranchOf(job.Ref)}).Count(job)
}

// between separates a workflow from the name of its job. No text of the ledger has it.
const between = "\x00"

// Of returns the sums of a kind, to be added to before the next call. What is folded first is the values of a job that
// has many, the lightest before others: a job keeps the branches that it runs on most, and one for all others.
func (k *Kinds) Of(kind Kind) *Sums {
	by := k.by[kind.Property]
	if by == nil {
		return k.whole
	}
	job := kind.Workflow + between + kind.Name
	if kind.Workflow == fold.Others {
		job = fold.Others
	}
	return by.Of(fold.Kind{Repository: kind.Repository, Workflow: job, Name: kind.Value})
}

// All returns the kinds that are kept with their sums.
func (k *Kinds) All() iter.Seq2[Kind, *Sums] {
	return func(yield func(Kind, *Sums) bool) {
		if k.whole.Jobs == 0 || !yield(Kind{Property: OfSet}, k.whole) {
			return
		}
		for _, property := range []string{ByEvent, ByBranch} {
			for folded, of := range k.by[property].All() {
				workflow, name, several := strings.Cut(folded.Workflow, between)
				if !several {
					name = fold.Others
				}
				if !yield(Kind{property, folded.Repository, workflow, name, folded.Name}, of) {
					return
				}
			}
		}
	}
}
