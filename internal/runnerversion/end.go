package runnerversion

import (
	"slices"
	"time"
)

// Warning is how long before the end of a version it is warned of.
const Warning = 14 * 24 * time.Hour

// enforced is the day since which github.com refuses versions before Oldest.
var enforced = time.Date(2026, time.September, 25, 0, 0, 0, 0, time.UTC)

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
func (k Known) End(v Version) (End, bool) {
	switch {
	case !k.Hosted || v.IsZero():
		return End{}, false
	case v.Before(Oldest):
		return End{At: enforced, Next: Oldest}, true
	}
	next, found := Next(v, Releases)
	for _, r := range k.Releases {
		if v.Before(r.Version) && (!found || r.Version.Before(next.Version)) {
			next, found = r, true
		}
	}
	switch {
	case found:
		return End{At: next.Published.Add(Grace), Next: next.Version}, true
	case v.Before(k.Offered) && !k.OfferedSince.IsZero():
		return End{At: k.OfferedSince.Add(Grace), Next: k.Offered, FirstSeen: true}, true
	}
	return End{}, false
}

// LastChange returns the last time up to now at which this GitHub began to refuse versions that it had taken, as far as
// is known: 30 days after each release or, on a GitHub Enterprise Server that says what it offers, when that changed. An
// image that has worked since then works until the next such time, whatever its version: but for a critical security
// release, after which GitHub refuses older ones at once, and which nothing tells before.
func (k Known) LastChange(now time.Time) (last time.Time) {
	began := func(at time.Time) {
		if !at.After(now) && at.After(last) {
			last = at
		}
	}
	if !k.Hosted && !k.Offered.IsZero() {
		began(k.OfferedSince)
		return last
	}
	for _, r := range slices.Concat(Releases, k.Releases) {
		began(r.Published.Add(Grace))
	}
	if began(enforced); !k.OfferedSince.IsZero() {
		began(k.OfferedSince.Add(Grace))
	}
	return last
}
