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
	listed := runnerversion.Seen{Since: day.Add(time.Hour), Releases: []runnerversion.Release{
		{Version: later(1), Published: day.Add(240 * time.Hour)}, {Version: later(0), Published: day},
	}}
	hosted, offers := runnerversion.Known{Hosted: true}, runnerversion.Known{Hosted: true, Offered: later(1)}
	for name, test := range map[string]struct {
		known   runnerversion.Known
		version runnerversion.Version
		seen    runnerversion.Seen
		want    runnerversion.End
	}{
		"too old to register":       {hosted, version(t, "2.328.0"), listed, runnerversion.End{At: time.Date(2026, time.September, 25, 0, 0, 0, 0, time.UTC), Next: runnerversion.Oldest}},
		"by the list of the build":  {hosted, version(t, "2.331.0"), listed, runnerversion.End{At: time.Date(2026, time.March, 27, 0, 0, 0, 0, time.UTC), Next: version(t, "2.332.0")}},
		"by GitHub's list":          {offers, newest, listed, runnerversion.End{At: day.Add(runnerversion.Grace), Next: later(0)}},
		"by when it was first seen": {offers, newest, runnerversion.Seen{Since: day}, runnerversion.End{At: day.Add(runnerversion.Grace), Next: later(1), FirstSeen: true}},
		"the newest has none":       {offers, later(1), listed, runnerversion.End{}},
		"nothing is known":          {hosted, newest, runnerversion.Seen{}, runnerversion.End{}},
		"no version":                {offers, runnerversion.Version{}, listed, runnerversion.End{}},
		"Enterprise Server":         {runnerversion.Known{Offered: later(1)}, newest, listed, runnerversion.End{}},
	} {
		if got, ok := test.known.End(test.version, test.seen); got != test.want || ok == test.want.At.IsZero() {
			t.Errorf("%s: %+v, %t, want %+v", name, got, ok, test.want)
		}
	}
}
