package trends

import (
	"cmp"
	"slices"

	"github.com/harrier-ci/harrier/operations/history/histogram"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// The last seven days are compared with the 21 days before. Both have each day of the week, and a company that rests at
// weekends still has 5 and 15 days that say something.
const (
	DaysAfter  = 7
	DaysBefore = 21
)

// rule says when a figure of jobs counts as worse.
//
// Days are compared and not jobs: jobs of one day share a commit, a cache, a cluster with much or little to do, so they
// are alike, and many of them prove no more than one. If nothing has changed, each order of the days is as likely as
// any other, whatever makes days differ. So it is an exact test: of all ways to choose the days after from all days, at
// most one in mostByChance has them as much above the others as they are. Few days can prove that: three above 21 is one
// of 2,024 ways. As what can be proven may be too little for anybody to care, both times must also differ by so much.
type rule struct {
	what string
	// of returns the figure of a day or of several, and of how many jobs it is.
	of func(*Sums) (figure float64, jobs int64)
	// A day counts if it has so many jobs.
	fewest int64
	// The figure must be so many times as large as before, and larger by so much.
	times, more float64
}

const (
	mostByChance = 2000
	// The days after have fewestAfter jobs at least, and those before twice as many.
	fewestAfter = 20
	// FewestJobs is less than any change has in both times.
	FewestJobs = 3 * fewestAfter
	// FewestADay is how many jobs of a scale set a day has at least that counts.
	FewestADay = 3
)

// ofJobs are the rules for jobs of a name with the same event, ofSets those for scale sets: a job waits for its set.
var (
	ofJobs = []rule{
		{rows.Slower, median, FewestADay, 1.2, 10},
		{rows.FailsMore, failures, FewestADay, 1.5, 5},
	}
	// The largest of few jobs grows with their number, so a day takes 20 for what 95 of 100 waited at most.
	ofSets = []rule{{rows.WaitsLonger, longest, 20, 1.25, 30}}
)

func median(s *Sums) (float64, int64) { return quantile(s.Runs, 0.5) }

func longest(s *Sums) (float64, int64) { return quantile(s.Waits, 0.95) }

func quantile(h histogram.Histogram, share float64) (float64, int64) {
	return h.Between(share), h.Count()
}

// failures is the percentage of the jobs that ended by themselves which failed.
func failures(s *Sums) (float64, int64) {
	ended := s.Succeeded + s.Failed
	return 100 * float64(s.Failed) / float64(max(1, ended)), ended
}

// ChangesOfJob returns what has changed for jobs of a name with the same event, by day: nil is a day without jobs. The
// last DaysAfter are compared with the others. Names and times are the caller's.
func ChangesOfJob(days []*Sums) []rows.Change { return changes(ofJobs, days) }

// ChangesOfSet returns what has changed for a scale set.
func ChangesOfSet(days []*Sums) []rows.Change { return changes(ofSets, days) }

func changes(rules []rule, days []*Sums) (found []rows.Change) {
	last := max(0, len(days)-DaysAfter)
	for i := range rules {
		if change := rules[i].change(days[:last], days[last:]); change != nil {
			found = append(found, *change)
		}
	}
	return found
}

// change returns the change, nil if there is none.
func (r *rule) change(before, after []*Sums) *rows.Change {
	figuresBefore, allBefore := r.figures(before)
	figuresAfter, allAfter := r.figures(after)
	was, jobsBefore := r.of(allBefore)
	is, jobsAfter := r.of(allAfter)
	if jobsAfter < fewestAfter || jobsBefore < 2*fewestAfter || is < was*r.times || is < was+r.more {
		return nil
	}
	if byChance(figuresBefore, figuresAfter) > 1.0/mostByChance {
		return nil
	}
	return &rows.Change{What: r.what, Before: was, After: is, JobsBefore: jobsBefore, JobsAfter: jobsAfter}
}

// figures returns the figure of each day that counts, and the sums of these days.
func (r *rule) figures(days []*Sums) (figures []float64, all *Sums) {
	all = &Sums{}
	for _, day := range days {
		if day == nil {
			continue
		}
		if figure, jobs := r.of(day); jobs >= r.fewest {
			figures = append(figures, figure)
			all.Merge(day)
		}
	}
	return figures, all
}

// byChance returns how likely the figures after are at least as much above those before as they are, if all come from
// the same: the one-sided test of Mann and Whitney, exactly. Equal figures count against a change.
func byChance(before, after []float64) float64 {
	against := 0
	sorted := slices.Clone(before)
	slices.Sort(sorted)
	for _, figure := range after {
		at, _ := slices.BinarySearchFunc(sorted, figure, func(one, of float64) int { return cmp.Compare(one, of) })
		against += len(sorted) - at
	}
	// ways[n] is the number of choices with n pairs against a change: the coefficients of the product of
	// (1-x^(before+i)) / (1-x^i) for i up to the number of days after.
	ways := make([]float64, len(before)*len(after)+1)
	ways[0] = 1
	for i := 1; i <= len(after); i++ {
		for n := len(ways) - 1; n >= len(before)+i; n-- {
			ways[n] -= ways[n-len(before)-i]
		}
		for n := i; n < len(ways); n++ {
			ways[n] += ways[n-i]
		}
	}
	few, all := 0.0, 0.0
	for n, number := range ways {
		if all += number; n <= against {
			few += number
		}
	}
	return few / all
}
