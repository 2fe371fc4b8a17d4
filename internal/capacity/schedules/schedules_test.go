package schedules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/capacity/schedules"
)

func at(t *testing.T, zone, wall string) time.Time {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	moment, err := time.ParseInLocation("2006-01-02 15:04:05", wall, location)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func office() schedules.Schedule {
	return schedules.Schedule{
		Name: "office", Expression: "0 7 * * 1-5", TimeZone: "Europe/Berlin", Duration: 11 * time.Hour,
		MinRunners: new(20), MaxRunners: new(200),
	}
}

func planOf(t *testing.T, all ...schedules.Schedule) *schedules.Plan {
	t.Helper()
	plan, refused := schedules.New(all)
	for _, r := range refused {
		t.Fatal(r)
	}
	return plan
}

var spec = schedules.Numbers{Min: 2, Max: 50}

// TestOpenAt: the second of an edge belongs to what begins with it, and a plan that is made within a window finds it
// open.
func TestOpenAt(t *testing.T) {
	open := schedules.Numbers{Min: 20, Max: 200}
	for wall, want := range map[string]struct {
		schedules.Numbers
		until string
	}{
		"2026-11-23 06:59:59": {spec, "2026-11-23 07:00:00"},
		"2026-11-23 07:00:00": {open, "2026-11-23 18:00:00"},
		"2026-11-23 12:34:56": {open, "2026-11-23 18:00:00"},
		"2026-11-23 17:59:59": {open, "2026-11-23 18:00:00"},
		"2026-11-23 18:00:00": {spec, "2026-11-24 07:00:00"},
		"2026-11-27 18:00:00": {spec, "2026-11-30 07:00:00"}, // a weekend
	} {
		effective := planOf(t, office()).At(at(t, "Europe/Berlin", wall), spec)
		if effective.Numbers != want.Numbers || !effective.Until.Equal(at(t, "Europe/Berlin", want.until)) {
			t.Errorf("%s: %+v", wall, effective)
		}
	}
}

// TestClockChanges: what a zone's clock skips, and what it shows twice.
func TestClockChanges(t *testing.T) {
	for name, test := range map[string]struct {
		zone, expression string
		duration         time.Duration
		// The search begins at from and finds opens and closes, in UTC.
		from, opens, closes string
	}{
		"skipped":                    {"Europe/Berlin", "30 2 * * *", time.Hour, "2026-03-28 20:00:00", "2026-03-29 01:00:00", "2026-03-29 02:00:00"},
		"skipped midnight":           {"Africa/Cairo", "0 0 * * *", time.Hour, "2026-04-23 20:00:00", "2026-04-23 22:00:00", "2026-04-23 23:00:00"},
		"skipped half an hour":       {"Australia/Lord_Howe", "15 2 * * *", time.Hour, "2026-10-03 12:00:00", "2026-10-03 15:30:00", "2026-10-03 16:30:00"},
		"skipped day":                {"Pacific/Apia", "0 7 * * *", time.Hour, "2011-12-30 00:00:00", "2011-12-30 10:00:00", "2011-12-30 11:00:00"},
		"twice, the first":           {"Europe/Berlin", "30 2 * * *", time.Hour, "2026-10-24 20:00:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00"},
		"twice, not the second":      {"Europe/Berlin", "30 2 * * *", 10 * time.Minute, "2026-10-25 00:45:00", "2026-10-26 01:30:00", "2026-10-26 01:40:00"},
		"twice, every hour":          {"Europe/Berlin", "30 * * * *", 10 * time.Minute, "2026-10-25 00:45:00", "2026-10-25 01:30:00", "2026-10-25 01:40:00"},
		"twice, a range of hours":    {"Europe/Berlin", "30 0-23 * * *", 10 * time.Minute, "2026-10-25 00:45:00", "2026-10-25 01:30:00", "2026-10-25 01:40:00"},
		"twice, a list of hours":     {"Europe/Berlin", "30 0-11,12-23/1 * * *", 10 * time.Minute, "2026-10-25 00:45:00", "2026-10-25 01:30:00", "2026-10-25 01:40:00"},
		"twice, not all hours":       {"Europe/Berlin", "30 1-23 * * *", 10 * time.Minute, "2026-10-25 00:45:00", "2026-10-25 02:30:00", "2026-10-25 02:40:00"},
		"open over the change":       {"Europe/Berlin", "0 22 * * *", 8 * time.Hour, "2026-10-24 12:00:00", "2026-10-24 20:00:00", "2026-10-25 04:00:00"},
		"a leap day years away":      {"UTC", "0 0 29 2 *", time.Hour, "2097-01-01 00:00:00", "2104-02-29 00:00:00", "2104-02-29 01:00:00"},
		"either day, as in CronJobs": {"", "0 0 13 * 5", time.Hour, "2026-11-07 00:00:00", "2026-11-13 00:00:00", "2026-11-13 01:00:00"},
	} {
		plan := planOf(t, schedules.Schedule{Name: name, Expression: test.expression, TimeZone: test.zone,
			Duration: test.duration, MinRunners: new(1)})
		closed := plan.At(at(t, "UTC", test.from), schedules.Numbers{Max: 5})
		if closed.Min != 0 || !closed.Until.Equal(at(t, "UTC", test.opens)) {
			t.Errorf("%s: at %s: %+v, want closed until %s", name, test.from, closed, test.opens)
		}
		opened := plan.At(closed.Until, schedules.Numbers{Max: 5})
		if opened.Min != 1 || !opened.Until.Equal(at(t, "UTC", test.closes)) {
			t.Errorf("%s: at its opening: %+v, want open until %s", name, opened, test.closes)
		}
	}
}

// TestOverlap: the highest minimum and the lowest maximum of what is open; what no open window says is the spec's.
func TestOverlap(t *testing.T) {
	window := func(name string, hours time.Duration, least, most *int) schedules.Schedule {
		return schedules.Schedule{Name: name, Expression: "0 8 * * *", Duration: hours * time.Hour, MinRunners: least,
			MaxRunners: most}
	}
	plan := planOf(t,
		window("four", 4, new(10), new(30)), window("three", 3, new(20), new(80)), window("two", 2, nil, new(15)),
		window("one", 1, new(0), nil))
	for wall, want := range map[string]schedules.Effective{
		"2026-11-26 08:30:00": {Numbers: schedules.Numbers{Min: 15, Max: 15}, Open: []string{"four", "three", "two", "one"}, MinOf: "three", MaxOf: "two"},
		"2026-11-26 10:30:00": {Numbers: schedules.Numbers{Min: 20, Max: 30}, Open: []string{"four", "three"}, MinOf: "three", MaxOf: "four"},
		"2026-11-26 11:30:00": {Numbers: schedules.Numbers{Min: 10, Max: 30}, Open: []string{"four"}, MinOf: "four", MaxOf: "four"},
		"2026-11-26 12:00:00": {Numbers: spec},
	} {
		got := plan.At(at(t, "UTC", wall), spec)
		got.Until = time.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", wall, diff)
		}
	}
	weekend := window("release", 1, nil, new(200)) // raises what the others allow
	weekend.Priority = 1
	raised := planOf(t, window("four", 4, new(10), new(30)), weekend, window("two", 2, nil, new(15)))
	for wall, want := range map[string]schedules.Effective{
		"2026-11-26 08:30:00": {Numbers: schedules.Numbers{Min: 10, Max: 200}, Open: []string{"four", "release", "two"}, MinOf: "four", MaxOf: "release"},
		"2026-11-26 09:30:00": {Numbers: schedules.Numbers{Min: 10, Max: 15}, Open: []string{"four", "two"}, MinOf: "four", MaxOf: "two"},
	} {
		got := raised.At(at(t, "UTC", wall), spec)
		got.Until = time.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with a priority, %s: %s", wall, diff)
		}
	}
	lower := planOf(t, window("night", 1, nil, new(1))).At(at(t, "UTC", "2026-11-26 08:30:00"), spec)
	if lower.Numbers != (schedules.Numbers{Min: 1, Max: 1}) {
		t.Errorf("the spec's minimum is above the window's maximum: %+v", lower)
	}
	if none, never := planOf(t).At(time.Now(), spec), (time.Time{}); none.Numbers != spec || none.Until != never {
		t.Errorf("no schedules: %+v", none)
	}
}

// TestRefused: what can't be followed is refused with its name and field, and the others are in force.
func TestRefused(t *testing.T) {
	change := func(do func(*schedules.Schedule)) schedules.Schedule {
		s := office()
		s.Name = "wrong"
		do(&s)
		return s
	}
	for name, test := range map[string]struct {
		schedule      schedules.Schedule
		field, saying string
	}{
		"a zone in the expression":        {change(func(s *schedules.Schedule) { s.Expression = "TZ=UTC 0 7 * * *" }), "schedule", "timeZone"},
		"another spelling":                {change(func(s *schedules.Schedule) { s.Expression = "CRON_TZ=Asia/Tokyo 0 7 * * *" }), "schedule", "timeZone"},
		"a zone that makes robfig panic":  {change(func(s *schedules.Schedule) { s.Expression = "TZ=0" }), "schedule", "timeZone"},
		"an interval":                     {change(func(s *schedules.Schedule) { s.Expression = "@every 1h" }), "schedule", "@every"},
		"a name":                          {change(func(s *schedules.Schedule) { s.Expression = " @daily" }), "schedule", "@every"},
		"seconds":                         {change(func(s *schedules.Schedule) { s.Expression = "0 0 7 * * 1-5" }), "schedule", "6 fields"},
		"nothing":                         {change(func(s *schedules.Schedule) { s.Expression = "" }), "schedule", "0 fields"},
		"a minute that is none":           {change(func(s *schedules.Schedule) { s.Expression = "60 7 * * *" }), "schedule", "60"},
		"a day that never comes":          {change(func(s *schedules.Schedule) { s.Expression = "0 0 30 2 *" }), "schedule", "never comes"},
		"a list of nothing":               {change(func(s *schedules.Schedule) { s.Expression = ", 7 * * *" }), "schedule", "comma"},
		"a hash":                          {change(func(s *schedules.Schedule) { s.Expression = "H 7 * * *" }), "schedule", "no cron expression"},
		"too much":                        {change(func(s *schedules.Schedule) { s.Expression = strings.Repeat("1,", 1000) + "1 7 * * *" }), "schedule", "characters"},
		"a zone that nobody knows":        {change(func(s *schedules.Schedule) { s.TimeZone = "Europe/Atlantis" }), "timeZone", "Atlantis"},
		"a zone outside of the directory": {change(func(s *schedules.Schedule) { s.TimeZone = "../../etc/passwd" }), "timeZone", "IANA"},
		"the node's zone":                 {change(func(s *schedules.Schedule) { s.TimeZone = "Local" }), "timeZone", "IANA"},
		"no duration":                     {change(func(s *schedules.Schedule) { s.Duration = 0 }), "duration", "0s"},
		"a negative duration":             {change(func(s *schedules.Schedule) { s.Duration = -time.Hour }), "duration", "0s"},
		"years":                           {change(func(s *schedules.Schedule) { s.Duration = 10000 * time.Hour }), "duration", "at most"},
		"no number":                       {change(func(s *schedules.Schedule) { s.MinRunners, s.MaxRunners = nil, nil }), "minRunners", "maxRunners"},
		"a negative minimum":              {change(func(s *schedules.Schedule) { s.MinRunners = new(-1) }), "minRunners", "negative"},
		"a negative maximum":              {change(func(s *schedules.Schedule) { s.MaxRunners = new(-1) }), "maxRunners", "negative"},
		"no name":                         {change(func(s *schedules.Schedule) { s.Name = "" }), "name", "missing"},
		"a long name":                     {change(func(s *schedules.Schedule) { s.Name = strings.Repeat("x", 64) }), "name", "63"},
		"a name that is taken":            {office(), "name", "earlier"},
	} {
		plan, refused := schedules.New([]schedules.Schedule{office(), test.schedule})
		if len(refused) != 1 || refused[0].Index != 1 || refused[0].Field != test.field ||
			!strings.Contains(refused[0].Error(), test.saying) {
			t.Errorf("%s: %v", name, refused)
		}
		if effective := plan.At(at(t, "Europe/Berlin", "2026-11-26 08:00:00"), spec); effective.Min != 20 {
			t.Errorf("%s: the schedule that is right is not in force: %+v", name, effective)
		}
	}
	if _, refused := schedules.New(make([]schedules.Schedule, 100)); len(refused) != 100 {
		t.Errorf("%d of 100 empty schedules are refused", len(refused))
	}
	many := make([]schedules.Schedule, 100)
	for i := range many {
		many[i] = schedules.Schedule{Name: "wrong", Expression: "0"}
	}
	if _, refused := schedules.New(many); !strings.Contains(refused[32].Error(), "beyond") ||
		strings.Contains(refused[31].Error(), "beyond") {
		t.Errorf("the one beyond those that are read: %v", refused[32])
	}
}

// BenchmarkAt has as many schedules as a set may have, of the kind that takes longest: their windows open every minute.
func BenchmarkAt(b *testing.B) {
	for name, expression := range map[string]string{"office": "0 7 * * 1-5", "every minute": "* * * * *",
		"leap day": "0 0 29 2 *"} {
		b.Run(name, func(b *testing.B) {
			all := make([]schedules.Schedule, 32)
			for i := range all {
				all[i] = schedules.Schedule{Name: strings.Repeat("x", i+1), Expression: expression,
					TimeZone: "Europe/Berlin",
					Duration: 8 * time.Hour, MinRunners: new(1)}
			}
			plan, _ := schedules.New(all)
			for b.Loop() {
				plan.At(time.Unix(1_800_000_000, 0), spec)
			}
		})
	}
}
