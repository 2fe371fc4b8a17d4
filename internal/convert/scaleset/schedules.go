package scaleset

import (
	"fmt"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/internal/convert/legacy"
	"github.com/harrier-ci/harrier/internal/convert/report"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
)

// override is one of an autoscaler's scheduled overrides. Its times are in the zone of their offsets.
type override struct {
	place      string
	start, end time.Time
	// frequency is Daily, Weekly, Monthly, Yearly or empty for once; until is when it recurs last, zero for ever.
	frequency string
	until     time.Time
}

const cronJobs = `create CronJobs as "More runners at certain hours" in docs/scaling.md shows, and leave minRunners out of the values then`

// schedules have no counterpart: the report says which CronJobs do the same.
func schedules(spec *legacy.Fields, usual *int, now time.Time, notes *report.Notes) {
	normal := 0
	if usual != nil {
		normal = *usual
	}
	var coming []override
	for _, part := range spec.Objects("scheduledOverrides") {
		rule := part.Object("recurrenceRule")
		paths := append(part.Present("startTime", "endTime", "minReplicas"), rule.Present("frequency", "untilTime")...)
		one, valid := readOverride(part, rule)
		switch least := part.Count("minReplicas"); {
		case least == nil:
			notes.NotNeeded("an override without minReplicas changes nothing", append(paths, one.place)...)
		case !valid:
			notes.NeedsHand("InvalidField", "an override has a startTime and a later endTime, such as 2026-06-01T07:00:00+02:00, and recurs Daily, Weekly, Monthly, Yearly or not at all, until an untilTime of that form",
				report.Advice{Whose: report.Installer, Fix: cronJobs}, append(paths, one.place)...)
		case one.over(now):
			notes.NotNeeded("it is over", paths...)
		default:
			notes.NeedsHand("NoCounterpart", one.asCronJobs(*least, normal), report.Advice{Whose: report.Administrator, Fix: cronJobs}, paths...)
			coming = append(coming, one)
		}
	}
	sayOverlaps(coming, now, normal, notes)
}

// readOverride reads an override, and reports whether its times can be followed.
func readOverride(part, rule *legacy.Fields) (one override, valid bool) {
	start, startErr := time.Parse(time.RFC3339, part.Text("startTime"))
	end, endErr := time.Parse(time.RFC3339, part.Text("endTime"))
	one = override{place: part.Place(), start: inOffset(start), end: inOffset(end), frequency: rule.Text("frequency")}
	valid = startErr == nil && endErr == nil && end.After(start) && slices.Contains([]string{"", "Daily", "Weekly", "Monthly", "Yearly"}, one.frequency)
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

// asCronJobs says which CronJobs do the same, by the clock of the override's offset.
func (o *override) asCronJobs(least, normal int) string {
	begins, ends := cron(o.start, o.frequency), cron(o.end, o.frequency)
	message := fmt.Sprintf("a scale set has no schedule of its own. A CronJob that sets minRunners to %d at %q, and one that sets it to %d at %q", least, begins, normal, ends)
	zone, fits := zoneOf(o.start)
	switch other, otherFits := zoneOf(o.end); {
	case !fits || !otherFits:
		message += fmt.Sprintf(", do the same with the time zone of a place as timeZone: the offsets %s and %s are by the clock, and don't both fit in an Etc/GMT±n, which has whole hours",
			o.start.Format("-07:00"), o.end.Format("-07:00"))
	case zone != other:
		message += fmt.Sprintf(", the first with timeZone %s and the second with %s, do the same", zone, other)
	default:
		message += ", both with timeZone " + zone + ", do the same"
	}
	if o.frequency == "" {
		message += ", this one time: suspend them afterwards"
	}
	if !o.until.IsZero() {
		message += "; delete them after " + o.until.Format(time.RFC3339)
	}
	return message
}

// cron returns when a CronJob starts that does so at a time, and at the same time by the clock of each further day, week, month or year.
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

// maxCompared is how many overrides are compared with each other: nobody follows more.
const maxCompared = 20

// sayOverlaps: of overrides in force at once ARC follows the first of the list, and CronJobs don't know of each other.
func sayOverlaps(coming []override, now time.Time, normal int, notes *report.Notes) {
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
	notes.NeedsLook("NoCounterpart", fmt.Sprintf("overrides overlap: %s. ARC follows the first of the list while several are in force; the CronJob at the end of one sets minRunners to %d even if another is in force",
		finding.Listed(pairs, maxNamed), normal), report.Advice{Whose: report.Administrator, Fix: "let that CronJob set the number of the override that is still in force"}, slices.Compact(places)...)
}

// overlap reports whether two overrides are in force at once within the year after both have begun.
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

// openings returns when an override comes into force in the year after a moment, and before it, if it is in force by then still or not.
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
		if at.After(from.AddDate(1, 0, 0)) || !o.until.IsZero() && at.After(o.until) {
			return all
		}
		if months+years == 0 || at.Day() == o.start.Day() { // not every month has a 31st
			all = append(all, at)
		}
	}
}
