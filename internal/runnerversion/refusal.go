package runnerversion

import (
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// Known is what is known of the GitHub at which a set registers its runners.
type Known struct {
	// Hosted is set for github.com and *.ghe.com. GitHub Enterprise Server has a rule of its own: it takes the version
	// that it offers, and no end is known before it offers another.
	Hosted bool
	// Offered is the version that this GitHub offers for download, zero if it isn't known.
	Offered Version
}

// Refuses reports whether GitHub refuses runners of that version by its own rules, as far as is known. It may not do so
// yet, or any more: GitHub has announced its rules several times.
func (k Known) Refuses(v Version, now time.Time) bool {
	switch {
	case v.IsZero():
		return false
	case !k.Hosted && !k.Offered.IsZero():
		return v.Before(k.Offered)
	case v.Before(Oldest):
		return true
	}
	next, found := Next(v, Releases)
	return found && !now.Before(next.Published.Add(Grace))
}

// RefusedSilently reports whether a runner of that version, which has exited with 0 and had no job, was refused: GitHub
// refuses the version, and such a runner does not tell so by its exit code. One that would tell was refused only if it
// had connected, as GitHub's record shows: then something around it has swallowed its exit code.
func (k Known) RefusedSilently(v Version, connected bool, now time.Time) bool {
	return k.Refuses(v, now) && (connected || !v.Tells())
}

// Takes says which versions this GitHub takes.
func (k Known) Takes() string {
	switch {
	case !k.Hosted && k.Offered.IsZero():
		return "GitHub Enterprise Server takes the version that it offers for download, and newer ones"
	case !k.Hosted:
		return fmt.Sprintf("this GitHub Enterprise Server takes %s, which it offers for download, and newer ones",
			k.Offered)
	}
	newest := Newest().Version
	if newest.Before(k.Offered) {
		newest = k.Offered
	}
	return fmt.Sprintf("it takes %s and later, each release until 30 days after the next one; the newest that is "+
		"known here is %s", Oldest, newest)
}

// At returns what is known of the GitHub at the address of a set, without what it offers.
func At(configURL string) Known {
	config, err := actions.ParseConfigURL(configURL)
	return Known{Hosted: err == nil && config.Hosted}
}
