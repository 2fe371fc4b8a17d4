// Package picture turns what the ledger knows into shapes: places in percents, paths in slots. It is pure; templates
// draw the shapes.
package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page/words"
)

// Window is the time that a picture shows. Places in it are percents of its width, so that pictures fit any screen.
type Window struct{ From, To time.Time }

// place returns the place of a moment, inside of the window.
func (w Window) place(moment time.Time) float64 {
	const precision = 1000 // a screen has less than 100,000 pixels
	exact := max(0, min(100, 100*float64(moment.Sub(w.From))/float64(w.To.Sub(w.From))))
	return math.Round(exact*precision) / precision
}

// Tick is a moment that is written below a picture.
type Tick struct {
	X    float64
	Text string
}

// ticks returns four to eight moments of a window that are easy to read.
func (w Window) ticks() (ticks []Tick) {
	const hour, day = time.Hour, 24 * time.Hour
	length, form := w.To.Sub(w.From), "15:04"
	every := 14 * day
	for _, candidate := range []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute, hour / 2, hour,
		2 * hour, 4 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day} {
		if length/candidate <= 7 {
			every = candidate
			break
		}
	}
	if every >= day {
		form = "01-02"
	}
	for moment := w.From.Truncate(every); moment.Before(w.To) && len(ticks) < 12; moment = moment.Add(every) {
		if x := w.place(moment); moment.After(w.From) && x < 96 { // a text at the edge would be cut
			ticks = append(ticks, Tick{x, moment.UTC().Format(form)})
		}
	}
	return ticks
}

// Span is a part of a window.
type Span struct{ X, Width float64 }

func (w Window) span(from, to time.Time) Span {
	x := w.place(from)
	return Span{x, max(0.15, w.place(to)-x)}
}

// merged returns the parts of a window in which nobody looked. Parts that are close to each other become one, so that
// there are 200 at most.
func (w Window) merged(gaps []ledger.Gap) (spans []Span) {
	const apart = 0.5
	sorted := slices.SortedFunc(slices.Values(gaps), func(a, b ledger.Gap) int { return a.From.Compare(b.From) })
	for i := range sorted {
		next := w.span(sorted[i].From, sorted[i].To)
		if last := len(spans) - 1; last >= 0 && next.X < spans[last].X+spans[last].Width+apart {
			spans[last].Width = max(spans[last].Width, next.X+next.Width-spans[last].X)
		} else {
			spans = append(spans, next)
		}
	}
	return spans
}

// stripSlots is the number of slots of a strip: half an hour each for a day.
const stripSlots = 48

// Strip shows the jobs of a scale set over time: running jobs, and on top of them waiting jobs. Its coordinates are
// slots, and percents of its height.
type Strip struct {
	// These are paths. Most is the number of runners that was allowed; Gaps are slots in which nobody looked for a
	// while.
	Running, Waiting, Most, Gaps string
	Ticks                        []Tick
	// Top is the number that the whole height stands for; the others are the largest numbers that were seen.
	Top, MostRunning, MostWaiting int64
	Known                         bool
}

// slot has the largest numbers within one slot of a strip.
type slot struct {
	known            bool
	running, waiting int64
	most             *int64
}

// NewStrip draws the samples of one scale set, the oldest first. A sample holds until the next one, at most for
// SampleInterval and some slack.
func NewStrip(samples []ledger.Sample, gaps []ledger.Gap, w Window) Strip {
	slots := make([]slot, stripSlots)
	long := w.To.Sub(w.From) / stripSlots
	for i := range samples {
		sample, until := &samples[i], samples[i].At.Add(ledger.SampleInterval+10*time.Minute)
		if i+1 < len(samples) && samples[i+1].At.Before(until) {
			until = samples[i+1].At
		}
		for g := range gaps {
			if from := gaps[g].From; from.After(sample.At) && from.Before(until) {
				until = from // nobody knows how long it held
			}
		}
		first, last := int(sample.At.Sub(w.From)/long), int((until.Sub(w.From)-1)/long)
		for s := max(0, first); s <= min(last, stripSlots-1); s++ {
			slots[s] = slot{known: true, running: max(slots[s].running, sample.Running),
				waiting: max(slots[s].waiting, sample.Waiting), most: sample.EffectiveMax}
		}
	}
	s := Strip{Ticks: w.ticks()}
	for _, slot := range slots {
		s.Known = s.Known || slot.known
		s.MostRunning, s.MostWaiting = max(s.MostRunning, slot.running), max(s.MostWaiting, slot.waiting)
		s.Top = max(s.Top, slot.running+slot.waiting)
	}
	s.Top = max(1, s.Top)
	height := func(number int64) float64 { return 100 - 100*float64(number)/float64(s.Top) }
	s.Running = area(slots, func(s slot) (float64, float64) { return 100, height(s.running) })
	s.Waiting = area(slots, func(s slot) (float64, float64) { return height(s.running), height(s.running + s.waiting) })
	s.Most = limit(slots, s.Top, height)
	unseen := make([]slot, stripSlots)
	for i := range gaps {
		first, last := int(gaps[i].From.Sub(w.From)/long), int(gaps[i].To.Sub(w.From)/long)
		for s := max(0, first); s <= min(last, stripSlots-1) && gaps[i].To.After(w.From); s++ {
			unseen[s] = slot{known: true}
		}
	}
	s.Gaps = area(unseen, func(slot) (float64, float64) { return 100, 0 })
	return s
}

// limit returns the line of the numbers of runners that were allowed, as far as they are within the height.
func limit(slots []slot, top int64, height func(int64) float64) string {
	var path strings.Builder
	last, drawn := int64(0), false
	for i, slot := range slots {
		switch now := slot.known && slot.most != nil && *slot.most > 0 && *slot.most <= top; {
		case !now:
			drawn = false
			continue
		case drawn && *slot.most == last:
			fmt.Fprint(&path, "h1")
		default:
			fmt.Fprintf(&path, "M%d %.4gh1", i, height(*slot.most))
		}
		last, drawn = *slot.most, true
	}
	return path.String()
}

// edge is a part of an outline: it goes to a height, and there to a slot.
type edge struct {
	height float64
	to     int
}

func extended(outline []edge, height float64, to int) []edge {
	if last := len(outline) - 1; last >= 0 && outline[last].height == height {
		outline[last].to = to
		return outline
	}
	return append(outline, edge{height, to})
}

// area returns the path around the area between two heights of each slot, in as few steps as there are changes: along
// the upper edge of slots that are side by side, and back along their lower edge.
func area(slots []slot, between func(slot) (low, high float64)) string {
	var path strings.Builder
	for first := 0; first < len(slots); first++ {
		var outline, lower []edge
		next := first
		for ; next < len(slots) && slots[next].known; next++ {
			low, high := between(slots[next])
			if high >= low {
				break
			}
			outline, lower = extended(outline, high, next+1), append(lower, edge{low, next})
		}
		if next == first {
			continue
		}
		for _, back := range slices.Backward(lower) {
			outline = extended(outline, back.height, back.to)
		}
		fmt.Fprintf(&path, "M%d %.4g", first, lower[0].height)
		for _, e := range outline {
			fmt.Fprintf(&path, "V%.4gH%d", e.height, e.to)
		}
		path.WriteByte('z')
		first = next
	}
	return path.String()
}

// Timeline shows jobs one beside the other: a lane has one job at a time, as a runner would.
type Timeline struct {
	Bars   []Bar
	Ticks  []Tick
	Gaps   []Span
	Height int
	// NotShown is the number of jobs for which no lane was left.
	NotShown int
}

// Bar is a job: its wait, since its runner was created, and its run.
type Bar struct {
	Y         int
	Wait, Run Span
	Class     string
	Title     string
}

const (
	maxLanes   = 40
	laneHeight = 14
)

// NewTimeline draws jobs as far as there are lanes. Those that run last until now.
func NewTimeline(jobs []ledger.Job, gaps []ledger.Gap, w Window, now time.Time) Timeline {
	t := Timeline{Ticks: w.ticks(), Gaps: w.merged(gaps)}
	sorted := slices.SortedFunc(slices.Values(jobs), func(a, b ledger.Job) int { return begun(&a).Compare(begun(&b)) })
	var free []time.Time // when each lane is
	for i := range sorted {
		job := &sorted[i]
		from, started, to := begun(job), job.At, job.Finished
		if to.IsZero() {
			to = now
		}
		lane := slices.IndexFunc(free, func(since time.Time) bool { return !since.After(from) })
		switch {
		case lane < 0 && len(free) == maxLanes:
			t.NotShown++
			continue
		case lane < 0:
			lane = len(free)
			free = append(free, to)
		default:
			free[lane] = to
		}
		outcome := words.OutcomeOf(job)
		t.Bars = append(t.Bars, Bar{
			Y: lane * laneHeight, Wait: Span{w.place(from), w.place(started) - w.place(from)}, Run: w.span(started, to),
			Class: outcome.Class, Title: words.Foreign(job.Name) + ", " + outcome.Word + ", " +
				words.Took(max(0, to.Sub(started))),
		})
	}
	t.Height = max(1, len(free)) * laneHeight
	return t
}

// begun returns the time since when a job's runner was there for this job: its creation or, if the runner was idle
// before, the time at which the job came.
func begun(job *ledger.Job) time.Time {
	from := job.Created
	for _, later := range []time.Time{job.Assigned, job.Queued} {
		if later.After(from) && !later.After(job.At) {
			from = later
		}
	}
	if from.IsZero() || from.After(job.At) {
		return job.At
	}
	return from
}

// Part is a phase of the wait for a runner, with its share of the whole.
type Part struct {
	Number int
	Class  string
	meaning.Phase
	// Limit says in few words at which limit the scale set was, with its number, for the part that is about that; Reason
	// is the word that programs know it by.
	Limit, Reason string
	// Took is its length or, of many jobs, their mean; half of them waited for Half at most, and 95 of 100 for Most.
	Took, Half, Most time.Duration
	Until            time.Time
	Span
}

// PartsOf returns what a job waited for.
func PartsOf(job *ledger.Job) (parts []Part) {
	until := map[string]time.Time{"assigned": job.Assigned, "created": job.Created, "registered": job.Registered,
		"placed": job.Placed, "imagePulled": job.ImagePulled, "containerUp": job.ContainerUp, "started": job.Started}
	for _, wait := range job.Waits() {
		_, phase := meaning.OfPhase(wait.Phase)
		part := Part{Phase: phase, Took: wait.Took, Until: until[wait.Phase]}
		if wait.Phase == phases.Limited {
			part.Limit, part.Reason = words.Limit(job.LimitedReason, job.LimitNumber), job.LimitedReason
		}
		parts = append(parts, part)
	}
	return spread(parts)
}

// Waits has the times that jobs waited, as a whole and by phase.
type Waits struct {
	Jobs int64
	// Mean is what they waited on average; half of the jobs waited no longer than Half, and 95 of 100 no longer than Most.
	Mean, Half, Most time.Duration
	// Parts have the same of each phase and limit. What they took on average adds up to Mean.
	Parts []Part
}

// WaitsOf returns the waits of jobs that are all added up together.
func WaitsOf(found []ledger.Wait) (w Waits) {
	for i := range found {
		wait := &found[i]
		mean := time.Duration(wait.MeanSeconds * float64(time.Second))
		half, most := time.Duration(wait.P50Seconds)*time.Second, time.Duration(wait.P95Seconds)*time.Second
		if wait.Phase == ledger.WholeWait {
			w.Jobs, w.Mean, w.Half, w.Most = wait.Jobs, mean, half, most
			continue
		}
		_, phase := meaning.OfPhase(wait.Phase)
		part := Part{Phase: phase, Took: mean, Half: half, Most: most}
		if wait.LimitedReason != "" {
			part.Limit, part.Reason = words.Limit(wait.LimitedReason, wait.LimitNumber), wait.LimitedReason
		}
		w.Parts = append(w.Parts, part)
	}
	w.Parts = spread(w.Parts)
	return w
}

// spread numbers parts, and lays them one after the other.
func spread(parts []Part) []Part {
	var whole time.Duration
	for i := range parts {
		whole += parts[i].Took
	}
	var x float64
	for i := range parts {
		parts[i].Number, _ = meaning.OfPhase(parts[i].Name)
		parts[i].Class = fmt.Sprint("step", parts[i].Number)
		if whole > 0 {
			parts[i].Span = Span{x, 100 * float64(parts[i].Took) / float64(whole)}
			x += parts[i].Width
		}
	}
	return parts
}

// Longest names the longest of parts, empty if nothing was waited for.
func Longest(parts []Part) string {
	if len(parts) == 0 {
		return ""
	}
	most := slices.MaxFunc(parts, func(a, b Part) int { return cmp.Compare(a.Took, b.Took) })
	if most.Took < time.Second {
		return ""
	}
	if most.Limit != "" {
		return most.Limit + ", " + words.Took(most.Took)
	}
	return most.Few + ", " + words.Took(most.Took)
}
