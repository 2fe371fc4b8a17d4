package schedules

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/netresearch/go-cron"
)

// maxSearchYears limits the search for the next time: the 29th of February comes after eight years, around 2100.
const maxSearchYears = 8

// allHours has a bit for each hour of the day, as the library has them.
const allHours = 1<<24 - 1

// parser reads cron's five fields, with days as in a CronJob: if both the day of the month and that of the week are
// given, either will do.
var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).
	WithMaxSearchYears(maxSearchYears)

// window is a schedule that can be followed.
//
// A clock that is put forward skips times, and one that is put back shows times twice. Asked in a zone, the library
// leaves out a day whose midnight is skipped, and a time in a gap of half an hour, and counts others twice. So it is
// asked in UTC only, for times as a clock on the wall shows them, and next finds the moments at which the zone's clock
// shows these:
//   - A time that is skipped is reached when the clock has passed it: the window opens at the end of the gap.
//   - A time that is shown twice is meant the first time. If the hour is *, as in "every ten minutes", or all hours
//     are named, as in 0-23, it is meant both times, or an hour would have no openings.
//
// A duration is time that passes, whatever the clock shows.
type window struct {
	Schedule
	times cron.Schedule
	zone  *time.Location
	// everyHour: times that the clock shows twice are meant twice.
	everyHour bool
}

// newWindow returns the window of a schedule, or the field that is wrong and the problem with it.
func newWindow(s Schedule) (w window, field, problem string) {
	switch {
	case s.Name == "":
		return w, "name", "is missing"
	case utf8.RuneCountInString(s.Name) > maxNameLength:
		return w, "name", fmt.Sprintf("has more than %d characters", maxNameLength)
	case s.Duration <= 0:
		return w, "duration", "must be longer than 0s, or the window never opens"
	case s.Duration > maxDuration:
		return w, "duration", fmt.Sprintf("must be at most %s", maxDuration)
	case s.MinRunners == nil && s.MaxRunners == nil:
		return w, "minRunners", "or maxRunners must be set, or the window changes nothing"
	case s.MinRunners != nil && *s.MinRunners < 0:
		return w, "minRunners", "must not be negative"
	case s.MaxRunners != nil && *s.MaxRunners < 0:
		return w, "maxRunners", "must not be negative"
	}
	w.Schedule = s
	if w.times, problem = parse(s.Expression); problem != "" {
		return w, "schedule", problem
	}
	named, _ := w.times.(*cron.SpecSchedule)
	w.everyHour = strings.ContainsAny(strings.Fields(s.Expression)[1][:1], "*?") ||
		(named != nil && named.Hour&allHours == allHours)
	if w.zone, problem = load(s.TimeZone); problem != "" {
		return w, "timeZone", problem
	}
	return w, "", ""
}

// parse reads a cron expression.
func parse(expression string) (times cron.Schedule, problem string) {
	fields := strings.Fields(expression)
	switch {
	case len(expression) > cron.MaxSpecLength:
		return nil, fmt.Sprintf("has more than %d characters", cron.MaxSpecLength)
	case strings.Contains(expression, "="):
		return nil, "must not name a time zone: that is the field timeZone"
	case strings.Contains(expression, "@"):
		return nil, `must be written out in cron's five fields, for instance "0 7 * * 1-5": it takes no @daily or @every`
	case len(fields) != 5:
		return nil, fmt.Sprintf("has %d fields: it needs five, minute, hour, day of month, month and day of week",
			len(fields))
	}
	for _, field := range fields {
		for entry := range strings.SplitSeq(field, ",") {
			if entry == "" { // the library would take a list of nothing for a time that never comes
				return nil, fmt.Sprintf("has a comma with nothing beside it in %q", field)
			}
		}
	}
	times, err := parser.Parse(expression)
	if err != nil {
		return nil, fmt.Sprintf("is no cron expression: %.200s", err.Error()) // which may quote all of it
	}
	if times.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, "names a day that never comes"
	}
	return times, ""
}

// load returns a time zone by its IANA name.
func load(name string) (zone *time.Location, problem string) {
	if name == time.Local.String() { // the node's, whatever that is
		return nil, fmt.Sprintf("%q is no time zone: use an IANA name like Europe/Berlin", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Sprintf("%.64q is no time zone: use an IANA name like Europe/Berlin", name)
	}
	return zone, ""
}

// next returns the time at which the window opens first after a moment; zero means never.
func (w *window) next(after time.Time) time.Time {
	after = after.In(w.zone)
	shown := clock(after) // the latest time on the clock that is not to come
	for {
		begin, end := after.ZoneBounds() // between them the clock is not changed
		if !w.everyHour && !begin.IsZero() {
			// If it was put back at the begin, it shows nothing new until it has caught up.
			if before := clock(begin.Add(-time.Second)); before.After(shown) {
				shown = before
			}
		}
		wall := w.times.Next(shown)
		if wall.IsZero() {
			return wall
		}
		opening := wall.Add(-aheadOfUTC(after))
		if end.IsZero() || opening.Before(end) {
			return opening
		}
		if !wall.After(clock(end)) { // the clock is put forward past that time, or just to it
			return end
		}
		after, shown = end, clock(end).Add(-time.Second)
	}
}

// aheadOfUTC returns the lead over UTC of a time's zone at that time.
func aheadOfUTC(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// clock returns what the clock of a time's zone shows at that time, as a time in UTC.
func clock(t time.Time) time.Time { return t.UTC().Add(aheadOfUTC(t)) }
