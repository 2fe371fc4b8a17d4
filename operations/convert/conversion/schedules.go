package conversion

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
	"github.com/harrier-ci/harrier/operations/finding"
)

// override is one of an autoscaler's scheduled overrides. Its times are in the zone of their offsets.
type override struct {
	place      string
	start, end time.Time
	// frequency is Daily, Weekly, Monthly, Yearly, or empty for a single time. It recurs until then; zero means for
	// ever.
	frequency string
	until     time.Time
}

const byHand = `write the windows as schedules in the values: "More runners at certain hours" in docs/scaling.md`

// schedules returns the windows of the scale set that overrides become.
func schedules(spec *legacy.Fields, now time.Time, notes *remarks.Notes) (windows []any) {
	var coming []override
	for _, part := range spec.Objects("scheduledOverrides") {
		rule := part.Object("recurrenceRule")
		paths := append(part.Present("startTime", "endTime", "minReplicas"), rule.Present("frequency", "untilTime")...)
		one, valid := readOverride(part, rule)
		switch least := part.Count("minReplicas"); {
		case least == nil:
			notes.NotNeeded("an override without minReplicas changes nothing", append(paths, one.place)...)
		case !valid:
			notes.NeedsHand("InvalidField",
				"an override has a startTime and a later endTime, such as 2026-06-01T07:00:00+02:00, and recurs "+
					"Daily, Weekly, Monthly, Yearly or not at all, until an untilTime of that form",
				remarks.Advice{Whose: remarks.Installer, Fix: byHand}, append(paths, one.place)...)
		case one.over(now):
			notes.NotNeeded("it is over", paths...)
		default:
			window, problem := one.asSchedule(fmt.Sprintf("override-%d", len(coming)+1), *least)
			if problem != "" {
				notes.NeedsHand("NoCounterpart", problem, remarks.Advice{Whose: remarks.Installer, Fix: byHand}, paths...)
			} else {
				windows = append(windows, window)
				one.sayConverted(window, paths, now, notes)
			}
			coming = append(coming, one)
		}
	}
	sayOverlaps(coming, now, notes)
	return windows
}

// sayConverted notes the schedule that an override has become, and the times at which somebody has to add and to remove
// it: a schedule has neither beginning nor end.
func (o *override) sayConverted(window map[string]any, paths []string, now time.Time, notes *remarks.Notes) {
	became := fmt.Sprintf("schedule %s: %q for %s, timeZone %s, minRunners %d", window["name"], window["schedule"],
		window["duration"], window["timeZone"], window["minRunners"])
	var differs, steps []string
	if o.start.After(now) {
		differs = append(differs, "comes from now on, not only from "+o.start.Format(time.RFC3339))
		steps = append(steps, fmt.Sprintf("add schedule %s only shortly before %s: a schedule has no beginning",
			window["name"], o.start.Format(time.RFC3339)))
	}
	if o.frequency == "" || !o.until.IsZero() {
		last := o.end
		if o.frequency != "" {
			last = o.until.Add(o.end.Sub(o.start))
		}
		differs = append(differs, "comes back for ever")
		steps = append(steps, fmt.Sprintf("remove schedule %s after %s", window["name"], last.Format(time.RFC3339)))
	}
	if len(steps) == 0 {
		for _, path := range paths {
			notes.Became(path, became)
		}
		return
	}
	notes.NeedsLook("NoCounterpart", fmt.Sprintf("it becomes %s, which %s", became, strings.Join(differs, " and ")),
		remarks.Advice{Whose: remarks.Installer, Fix: strings.Join(steps, "; ")}, paths...)
}

// readOverride reads an override, and reports whether its times can be followed.
func readOverride(part, rule *legacy.Fields) (one override, valid bool) {
	start, startErr := time.Parse(time.RFC3339, part.Text("startTime"))
	end, endErr := time.Parse(time.RFC3339, part.Text("endTime"))
	one = override{place: part.Place(), start: inOffset(start), end: inOffset(end), frequency: rule.Text("frequency")}
	valid = startErr == nil && endErr == nil && end.After(start) &&
		slices.Contains([]string{"", "Daily", "Weekly", "Monthly", "Yearly"}, one.frequency)
	if until := rule.Text("untilTime"); until != "" {
		var err error
		one.until, err = time.Parse(time.RFC3339, until)
		valid = valid && err == nil
	}
	return one, valid
}

// inOffset returns a time in a zone that is never put forward or back, as its text says.
func inOffset(at time.Time) time.Time {
	_, offset := at.Zone()
	return at.In(time.FixedZone("", offset))
}

// over reports whether an override has been in force for the last time.
func (o *override) over(now time.Time) bool {
	if o.frequency == "" {
		return !now.Before(o.end)
	}
	return !o.until.IsZero() && now.After(o.until.Add(o.end.Sub(o.start)))
}

// maxDuration limits a window of a scale set.
const maxDuration = 8784 * time.Hour

// asSchedule returns the schedule that does the same by the clock of the override's offset, or the reason why there is
// none.
func (o *override) asSchedule(name string, least int) (window map[string]any, problem string) {
	zone, fits := zoneOf(o.start)
	duration := o.end.Sub(o.start)
	switch {
	case !fits:
		return nil, fmt.Sprintf("no Etc/GMT±n has the offset %s, as these have whole hours: a schedule at %q for "+
			"%s, with minRunners %d and the time zone of a place as timeZone, does the same",
			o.start.Format("-07:00"), cron(o.start, o.frequency), duration, least)
	case duration > maxDuration:
		return nil, fmt.Sprintf("a window stays open for %s at most", maxDuration)
	}
	return map[string]any{
		"name":       name,
		"schedule":   cron(o.start, o.frequency),
		"duration":   duration.String(),
		"timeZone":   zone,
		"minRunners": least,
	}, ""
}

// cron returns the expression of a time, and of the same time by the clock of each further day, week, month or year.
func cron(at time.Time, frequency string) string {
	clock := fmt.Sprintf("%d %d ", at.Minute(), at.Hour())
	switch frequency {
	case "Daily":
		return clock + "* * *"
	case "Weekly":
		return clock + fmt.Sprintf("* * %d", at.Weekday())
	case "Monthly":
		return clock + fmt.Sprintf("%d * *", at.Day())
	default:
		return clock + fmt.Sprintf("%d %d *", at.Day(), at.Month())
	}
}

// zoneOf returns the time zone with a time's offset. Etc/GMT counts to the west, and has whole hours from -14 to 12.
func zoneOf(at time.Time) (zone string, fits bool) {
	_, offset := at.Zone()
	hours := offset / 3600
	switch {
	case offset%3600 != 0 || hours < -12 || hours > 14:
		return "", false
	case hours == 0:
		return "Etc/UTC", true
	}
	return fmt.Sprintf("Etc/GMT%+d", -hours), true
}

// maxCompared limits the overrides that are compared with each other: nobody follows more.
const maxCompared = 20

// sayOverlaps: of overrides in force at the same time ARC follows the first of the list, and a scale set the highest
// number.
func sayOverlaps(coming []override, now time.Time, notes *remarks.Notes) {
	var pairs, places []string
	compared := coming[:min(len(coming), maxCompared)]
	for i := range compared {
		for j := range compared[:i] {
			if overlap(&compared[j], &compared[i], now) {
				pairs = append(pairs, compared[j].place+" with "+compared[i].place)
				places = append(places, compared[j].place, compared[i].place)
			}
		}
	}
	if len(pairs) == 0 {
		return
	}
	slices.Sort(places)
	notes.NeedsLook("NoCounterpart",
		fmt.Sprintf("overrides overlap: %s. ARC follows the first of the list while several are in force; of open "+
			"schedules the highest minRunners counts", finding.Listed(pairs, maxNamed)),
		remarks.Advice{Whose: remarks.Installer, Fix: "change the windows if the lower number is meant"},
		slices.Compact(places)...)
}

// overlap reports whether two overrides are in force at the same time within the year after both have begun.
func overlap(a, b *override, now time.Time) bool {
	from := now
	for _, begin := range []time.Time{a.start, b.start} {
		if begin.After(from) {
			from = begin
		}
	}
	ofA, ofB := a.openings(from), b.openings(from)
	lengthA, lengthB := a.end.Sub(a.start), b.end.Sub(b.start)
	for len(ofA) > 0 && len(ofB) > 0 {
		switch {
		case !ofA[0].Add(lengthA).After(ofB[0]):
			ofA = ofA[1:]
		case !ofB[0].Add(lengthB).After(ofA[0]):
			ofB = ofB[1:]
		default:
			return true
		}
	}
	return false
}

// openings returns the times at which an override comes into force in the year after a moment, and the last ones before
// it, whether the override is still in force then or not.
func (o *override) openings(from time.Time) (all []time.Time) {
	const day = 24 * 60 * 60
	elapsed := from.Unix() - o.start.Unix() // a time.Duration has room for 292 years only
	years, months, days, first := 0, 0, 0, int64(0)
	switch o.frequency {
	case "":
		return []time.Time{o.start}
	case "Daily":
		days, first = 1, elapsed/day
	case "Weekly":
		days, first = 7, elapsed/(7*day)
	case "Monthly":
		months, first = 1, elapsed/(31*day)
	case "Yearly":
		years, first = 1, elapsed/(366*day)
	}
	for n := max(0, int(first)-1); ; n++ {
		at := o.start.AddDate(n*years, n*months, n*days)
		if at.After(from.AddDate(1, 0, 0)) || (!o.until.IsZero() && at.After(o.until)) {
			return all
		}
		if months+years == 0 || at.Day() == o.start.Day() { // not every month has a 31st
			all = append(all, at)
		}
	}
}
