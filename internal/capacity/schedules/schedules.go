// Package schedules says which numbers of runners the schedules of a set put in force at a moment, and when that ends.
// It is pure: the numbers follow from the schedules and the moment alone, so a manager that starts within a window
// finds it open.
package schedules

import (
	"cmp"
	"fmt"
	"time"

	_ "time/tzdata" // the images have no time zones
)

const (
	// maxSchedules limits those of a set: one costs some 20 µs at each edge, and 150 µs if it opens every minute.
	maxSchedules = 32
	// maxDuration limits a window: one that is longer than a year is the spec.
	maxDuration = 366 * 24 * time.Hour
	// maxNameLength, in characters, is that of a DNS label, as for the names of containers.
	maxNameLength = 63
	// maxFollowing limits the openings within the open window that are followed to find when it closes. A window that
	// opens every hour for an hour never closes, and is looked at again after so many.
	maxFollowing = 30
)

// Schedule opens a window of a set at the times of a cron expression, for a duration.
type Schedule struct {
	Name string
	// Expression is a cron expression of five fields. TimeZone is its IANA time zone, empty for UTC.
	Expression, TimeZone string
	Duration             time.Duration
	// MinRunners and MaxRunners replace the spec's numbers while the window is open; nil leaves a number to other windows
	// and the spec.
	MinRunners, MaxRunners *int
	// Priority decides between windows that are open at the same time and set the same number.
	Priority int
}

// RefusedError says what is wrong with a schedule. Such a schedule has no windows; the others are in force.
type RefusedError struct {
	// Index is the schedule's in the list, Name its name, and Field the name in the spec of the field that has to be
	// changed.
	Index       int
	Name, Field string
	Problem     string
}

// Error names the schedule, the field and the problem.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("schedules[%d] (%q): %s %s", r.Index, r.Name, r.Field, r.Problem)
}

// Numbers are the number of runners that a set keeps idle, and the number that it has at most.
type Numbers struct{ Min, Max int }

// Effective has the numbers in force at a moment.
type Effective struct {
	Numbers
	// Open names the schedules whose windows are open, in the order of the list.
	Open []string
	// MinOf and MaxOf name the schedules that gave the numbers, empty for the spec.
	MinOf, MaxOf string
	// Until is the moment at which a window opens or closes next, so that the numbers may change; zero means never. Until
	// may be earlier if a window opens again and again while it is open.
	Until time.Time
}

// Plan has the windows of a set. It never changes, and is safe for concurrent use.
type Plan struct{ windows []window }

// New returns the plan of those schedules that can be followed, and what is wrong with the others.
func New(schedules []Schedule) (*Plan, []*RefusedError) {
	plan, names := &Plan{}, map[string]bool{}
	var refused []*RefusedError
	for i, s := range schedules {
		var w window
		var problem string
		field := "name"
		switch {
		case i >= maxSchedules: // however many there are, no more are read
			problem = fmt.Sprintf("is beyond the %d schedules that a set may have", maxSchedules)
		case names[s.Name]:
			problem = "is that of an earlier schedule: each needs its own"
		default:
			w, field, problem = newWindow(s)
		}
		if problem != "" {
			refused = append(refused, &RefusedError{Index: i, Name: shortened(s.Name), Field: field, Problem: problem})
			continue
		}
		names[s.Name] = true
		plan.windows = append(plan.windows, w)
	}
	return plan, refused
}

// At returns the numbers in force at that moment, given the spec's. Of several open windows that set a number those of the
// highest priority count, and of these the highest minimum and the lowest maximum. A number that no open window sets is
// the spec's. The minimum is never above the maximum.
func (p *Plan) At(now time.Time, spec Numbers) Effective {
	var least, most *window
	effective := Effective{Numbers: spec}
	for i := range p.windows {
		w := &p.windows[i]
		open, edge := w.at(now)
		if !edge.IsZero() && (effective.Until.IsZero() || edge.Before(effective.Until)) {
			effective.Until = edge
		}
		if !open {
			continue
		}
		effective.Open = append(effective.Open, w.Name)
		if w.raises(least) {
			least = w
		}
		if w.lowers(most) {
			most = w
		}
	}
	if least != nil {
		effective.Min, effective.MinOf = *least.MinRunners, least.Name
	}
	if most != nil {
		effective.Max, effective.MaxOf = *most.MaxRunners, most.Name
	}
	effective.Min = min(effective.Min, effective.Max)
	return effective
}

// raises reports whether the window's minimum counts instead of that of another one, nil if there is none.
func (w *window) raises(other *window) bool {
	return w.MinRunners != nil && (other == nil || cmp.Or(cmp.Compare(w.Priority, other.Priority),
		cmp.Compare(*w.MinRunners, *other.MinRunners)) > 0)
}

// lowers reports the same of its maximum.
func (w *window) lowers(other *window) bool {
	return w.MaxRunners != nil && (other == nil || cmp.Or(cmp.Compare(w.Priority, other.Priority),
		cmp.Compare(*other.MaxRunners, *w.MaxRunners)) > 0)
}

// at reports whether the window is open, and the earliest time at which that may change; zero means never.
func (w *window) at(now time.Time) (open bool, edge time.Time) {
	opening := w.next(now.Add(-w.Duration)) // one that began earlier has closed
	if opening.IsZero() || opening.After(now) {
		return false, opening
	}
	for range maxFollowing {
		edge = opening.Add(w.Duration)
		opening = w.next(opening)
		if opening.IsZero() || opening.After(edge) {
			break
		}
	}
	return true, edge
}

// shortened returns a name that can be quoted: it is whatever somebody wrote.
func shortened(name string) string {
	if characters := []rune(name); len(characters) > maxNameLength {
		return string(characters[:maxNameLength])
	}
	return name
}
