package schedules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/capacity/schedules"
)

// fields are the values of a cron expression, without the expression: the oracle parses nothing. Nil is every value.
type fields struct{ minute, hour, day, month, weekday []int }

func (f fields) String() string {
	list := func(values []int) string {
		if values == nil {
			return "*"
		}
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(values)), ","), "[]")
	}
	return strings.Join([]string{list(f.minute), list(f.hour), list(f.day), list(f.month), list(f.weekday)}, " ")
}

func (f fields) name(wall time.Time) bool {
	in := func(values []int, value int) bool { return values == nil || slices.Contains(values, value) }
	day, weekday := in(f.day, wall.Day()), in(f.weekday, int(wall.Weekday()))
	if f.day != nil && f.weekday != nil {
		day, weekday = day || weekday, true
	}
	return in(f.minute, wall.Minute()) && in(f.hour, wall.Hour()) && in(f.month, int(wall.Month())) && day && weekday
}

// anyFields draws an expression that comes often enough to matter in a few days.
func anyFields(random *rand.Rand) fields {
	some := func(low, high, most int) []int {
		values := make([]int, 1+random.IntN(most))
		for i := range values {
			values[i] = low + random.IntN(high-low+1)
		}
		return values
	}
	var f fields
	if random.IntN(8) > 0 {
		f.minute = some(0, 59, 3)
	}
	if random.IntN(3) > 0 {
		f.hour = some(0, 4, 3) // where clocks are changed
	}
	if random.IntN(4) == 0 {
		f.day = some(1, 31, 10)
	}
	if random.IntN(3) == 0 {
		f.weekday = some(0, 6, 4)
	}
	return f
}

// changes are days around which a clock was or will be changed.
var changes = map[string][]string{
	"Europe/Berlin":       {"2026-03-29", "2026-10-25"},
	"America/New_York":    {"2026-03-08", "2026-11-01"},
	"Australia/Lord_Howe": {"2026-10-04", "2026-04-05"}, // by half an hour
	"Africa/Cairo":        {"2026-04-24", "2026-10-30"}, // at midnight
	"America/Sao_Paulo":   {"2018-11-04", "2018-02-18"}, // at midnight
	"Antarctica/Troll":    {"2026-03-29", "2026-10-25"}, // by two hours
	"Pacific/Apia":        {"2011-12-30"},               // by a day
	"Asia/Kolkata":        {"2026-11-26"},
	"":                    {"2026-11-26"},
}

// walk goes through the minutes of a zone around a day and calls visit with each and whether the window is open then.
// An opening is a minute in which the clock has reached, for the first time, a time that the expression names; with
// every hour named, also one that names itself.
func walk(zone *time.Location, day time.Time, f fields, duration time.Duration, visit func(time.Time, bool)) {
	const margin = 4 * 24 * time.Hour
	begin := day.Add(-margin - duration)
	wall := func(t time.Time) time.Time {
		_, ahead := t.In(zone).Zone()
		return t.UTC().Add(time.Duration(ahead) * time.Second)
	}
	reached, opened := wall(begin.Add(-2*time.Hour)), time.Time{}
	for t := begin.Add(-time.Hour); t.Before(day.Add(margin)); t = t.Add(time.Minute) {
		now := wall(t)
		opens := f.hour == nil && f.name(now)
		for reached.Before(now) {
			reached = reached.Add(time.Minute)
			opens = opens || f.name(reached)
		}
		if opens {
			opened = t
		}
		if !t.Before(begin.Add(duration)) {
			visit(t, !opened.IsZero() && t.Before(opened.Add(duration)))
		}
	}
}

// TestEveryMinute compares a plan with the oracle in each minute around the changes of clocks: whether the window is
// open, and that nothing changes before Until, while something does then.
func TestEveryMinute(t *testing.T) {
	for name, days := range changes {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, date := range days {
			day, err := time.ParseInLocation(time.DateOnly, date, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(8) {
				random := rand.New(rand.NewPCG(seed, uint64(len(name))))
				f := anyFields(random)
				duration := time.Duration(1+random.IntN([]int{10, 90, 1500}[random.IntN(3)])) * time.Minute
				plan := planOf(t, schedules.Schedule{Name: "s", Expression: f.String(), TimeZone: name,
					Duration:   duration,
					MinRunners: new(1)})
				compare(t, plan, zone, day, f, duration)
				if t.Failed() {
					t.Fatalf("%s %s: %q for %s, seed %d", name, date, f, duration, seed)
				}
			}
		}
	}
}

func compare(t *testing.T, plan *schedules.Plan, zone *time.Location, day time.Time, f fields, duration time.Duration) {
	var last schedules.Effective
	var since time.Time // last is from then
	first := true
	walk(zone, day, f, duration, func(now time.Time, open bool) {
		if t.Failed() {
			return
		}
		if due := !first && !last.Until.IsZero() && !now.Before(last.Until); first || due {
			// Only a window that has opened thirty times meanwhile may be as it was.
			if before := last.Min == 1; due && before == open && (!before || now.Sub(since) < 30*time.Minute) {
				t.Errorf("at %s: %+v, and nothing changes", now.In(zone), last)
			}
			last, since, first = plan.At(now, schedules.Numbers{Max: 5}), now, false
		}
		// Between the edges the last answer has to hold; and any moment gives the same answer by itself.
		anew := last
		if now.Minute()%7 == 0 {
			anew = plan.At(now, schedules.Numbers{Max: 5})
		}
		if (last.Min == 1) != open || (anew.Min == 1) != open {
			t.Errorf("at %s: open is %v by the edges and %v by itself, want %v", now.In(zone), last.Min == 1,
				anew.Min == 1,
				open)
		}
	})
}

// FuzzNew: no expression, zone or duration makes it panic, take long, or give a plan that contradicts itself.
func FuzzNew(f *testing.F) {
	for _, expression := range []string{"0 7 * * 1-5", "*/5 * * * *", "TZ=0", "TZ= * * * * *", "@every 1h", "0 0 29 2 *",
		"5-3/2 22-2 L * FRI#3", ", , , , ,", "+1 ? */31 jan-DEC 7"} {
		f.Add(expression, "Europe/Berlin", int64(time.Hour), int64(1794000000))
	}
	f.Fuzz(func(t *testing.T, expression, zone string, duration, second int64) {
		now := time.Unix(second%(1<<33), 0)
		plan, _ := schedules.New([]schedules.Schedule{{Name: "s", Expression: expression, TimeZone: zone,
			Duration: time.Duration(duration), MaxRunners: new(1)}})
		effective := plan.At(now, schedules.Numbers{Max: 5})
		if !effective.Until.IsZero() && !effective.Until.After(now) {
			t.Errorf("at %s the next edge is %s", now, effective.Until)
		}
		if open := len(effective.Open) == 1; open != (effective.Max == 1) {
			t.Errorf("open: %v, with %+v", open, effective)
		}
		before := plan.At(effective.Until.Add(-time.Second), schedules.Numbers{Max: 5})
		if effective.Until.After(now.Add(time.Second)) && before.Max != effective.Max {
			t.Errorf("it changes between %s and %s", now, effective.Until)
		}
	})
}
