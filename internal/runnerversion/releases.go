package runnerversion

import (
	"slices"
	"time"
)

// Release is a release of the runner.
type Release struct {
	Version Version
	// Published is the day on which it was released, at the end of which it counts as such.
	Published time.Time
}

func release(minor, patch, year int, month time.Month, day int) Release {
	return Release{Version{2, minor, patch}, time.Date(year, month, day, 0, 0, 0, 0, time.UTC)}
}

// Releases are the releases that this build knows, oldest first. A release of Harrier brings the list up to date:
// internal/runnerversion/releases.go. The days are those of the tags in github.com/actions/runner.
var Releases = []Release{
	release(328, 0, 2025, time.August, 13),
	release(329, 0, 2025, time.October, 14),
	release(330, 0, 2025, time.November, 19),
	release(331, 0, 2026, time.January, 9),
	release(332, 0, 2026, time.February, 25),
	release(333, 0, 2026, time.March, 18),
	release(333, 1, 2026, time.March, 27),
	release(334, 0, 2026, time.April, 21),
	release(335, 0, 2026, time.June, 8),
	release(335, 1, 2026, time.June, 9),
	release(336, 0, 2026, time.July, 20),
	// The days of these are the first on which public repositories name them: they are not later.
	release(337, 0, 2026, time.September, 11),
	release(338, 0, 2026, time.October, 5),
	// The bot for updates raises this number, and a test fails until the line above is added.
	// newest: 2.338.0
}

var (
	// Oldest is the oldest version that GitHub lets register: on github.com since 25 September 2026, with data
	// residency since 31 July.
	Oldest = Version{2, 329, 0}
	// telling is the first version that exits with 7 when it is refused, if
	// ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE is 1: src/Runner.Listener/Program.cs, run.sh, run.cmd and their
	// helpers have it since then. Earlier ones say in their log that they are deprecated, and exit with 0.
	telling = Version{2, 333, 0}
)

// Grace is how long after the next release GitHub gives jobs to a runner.
const Grace = 30 * 24 * time.Hour

// Tells reports whether a runner of that version exits with 7 when GitHub refuses it.
func (v Version) Tells() bool { return !v.Before(telling) }

// Newest returns the newest release that this build knows.
func Newest() Release { return Releases[len(Releases)-1] }

// Next returns the first known release after a version, in a list that is sorted by version.
func Next(v Version, releases []Release) (Release, bool) {
	i := slices.IndexFunc(releases, func(r Release) bool { return v.Before(r.Version) })
	if i < 0 {
		return Release{}, false
	}
	return releases[i], true
}
