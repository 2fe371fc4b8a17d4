package runnerversion

import "time"

// Warning is how long before the end of a version it is warned of.
const Warning = 14 * 24 * time.Hour

// enforced is the day since which github.com refuses versions before Oldest.
var enforced = time.Date(2026, time.September, 25, 0, 0, 0, 0, time.UTC)

// Seen is what a set's GitHub has said of releases that this build may not know.
type Seen struct {
	// Since is the time at which Known.Offered was first seen.
	Since time.Time
	// Releases are those that GitHub lists, in any order.
	Releases []Release
}

// End is the end of a version.
type End struct {
	// At is the time from which GitHub refuses the version by its rules.
	At time.Time
	// Next is the release after it, or the oldest version that may register.
	Next Version
	// FirstSeen is set if the day of that release isn't known: At counts from when it was first seen here, and the end
	// may come earlier.
	FirstSeen bool
}

// End returns the end of a version, if it has one that is known. It needs the day of the next release: from the list in
// this build, else from GitHub's, else from when a newer version was first offered. GitHub Enterprise Server sets no
// end.
func (k Known) End(v Version, seen Seen) (End, bool) {
	switch {
	case !k.Hosted || v.IsZero():
		return End{}, false
	case v.Before(Oldest):
		return End{At: enforced, Next: Oldest}, true
	}
	next, found := Next(v, Releases)
	for _, r := range seen.Releases {
		if v.Before(r.Version) && (!found || r.Version.Before(next.Version)) {
			next, found = r, true
		}
	}
	switch {
	case found:
		return End{At: next.Published.Add(Grace), Next: next.Version}, true
	case v.Before(k.Offered) && !seen.Since.IsZero():
		return End{At: seen.Since.Add(Grace), Next: k.Offered, FirstSeen: true}, true
	}
	return End{}, false
}
