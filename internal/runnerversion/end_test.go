package runnerversion_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/runnerversion"
)

func TestEndOfAVersion(t *testing.T) {
	newest := runnerversion.Newest().Version
	later := func(patch int) runnerversion.Version {
		return runnerversion.Version{Major: newest.Major, Minor: newest.Minor + 100, Patch: patch}
	}
	day := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	listed := []runnerversion.Release{
		{Version: later(1), Published: day.Add(240 * time.Hour)}, {Version: later(0), Published: day},
	}
	nothing := runnerversion.Known{Hosted: true}
	lists := runnerversion.Known{Hosted: true, Releases: listed}
	offers := runnerversion.Known{Hosted: true, Offered: later(1), OfferedSince: day}
	both := runnerversion.Known{Hosted: true, Offered: later(1), OfferedSince: day.Add(time.Hour), Releases: listed}
	for name, test := range map[string]struct {
		known   runnerversion.Known
		version runnerversion.Version
		want    runnerversion.End
	}{
		"too old to register":       {lists, version(t, "2.328.0"), runnerversion.End{At: time.Date(2026, time.September, 25, 0, 0, 0, 0, time.UTC), Next: runnerversion.Oldest}},
		"by the list of the build":  {lists, version(t, "2.331.0"), runnerversion.End{At: time.Date(2026, time.March, 27, 0, 0, 0, 0, time.UTC), Next: version(t, "2.332.0")}},
		"by GitHub's list":          {both, newest, runnerversion.End{At: day.Add(runnerversion.Grace), Next: later(0)}},
		"by when it was first seen": {offers, newest, runnerversion.End{At: day.Add(runnerversion.Grace), Next: later(1), FirstSeen: true}},
		"the newest has none":       {both, later(1), runnerversion.End{}},
		"nothing is known":          {nothing, newest, runnerversion.End{}},
		"no version":                {both, runnerversion.Version{}, runnerversion.End{}},
		"Enterprise Server":         {runnerversion.Known{Offered: later(1), OfferedSince: day, Releases: listed}, newest, runnerversion.End{}},
	} {
		if got, ok := test.known.End(test.version); got != test.want || ok == test.want.At.IsZero() {
			t.Errorf("%s: %+v, %t, want %+v", name, got, ok, test.want)
		}
	}
}

// A proof that an image works is good until GitHub next begins to refuse versions.
func TestLastChange(t *testing.T) {
	day := func(month time.Month, day int) time.Time { return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC) }
	hosted := runnerversion.Known{Hosted: true}
	server := runnerversion.Known{Offered: version(t, "2.331.0"), OfferedSince: day(time.May, 5)}
	first := runnerversion.Known{Hosted: true, Offered: version(t, "2.900.0"), OfferedSince: day(time.December, 1)}
	listed := runnerversion.Known{Hosted: true, Releases: []runnerversion.Release{
		{Version: version(t, "2.900.0"), Published: day(time.November, 29)}}}
	for name, test := range map[string]struct {
		known     runnerversion.Known
		now, want time.Time
	}{
		"a second before 30 days":         {hosted, day(time.March, 27).Add(-time.Second), day(time.February, 8)},
		"30 days after 2.332.0":           {hosted, day(time.March, 27), day(time.March, 27)},
		"the day of the oldest":           {hosted, day(time.September, 26), day(time.September, 25)},
		"by GitHub's list":                {listed, day(time.December, 30), day(time.December, 29)},
		"by when it was first seen":       {first, day(time.December, 31), day(time.December, 31)},
		"Enterprise Server offers":        {server, day(time.December, 31), day(time.May, 5)},
		"Enterprise Server offered later": {server, day(time.May, 4), time.Time{}},
		"Enterprise Server doesn't say":   {runnerversion.Known{}, day(time.March, 28), day(time.March, 27)},
	} {
		if got := test.known.LastChange(test.now); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
