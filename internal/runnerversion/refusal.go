package runnerversion

import (
	"fmt"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// Known is what is known of the GitHub at which a set registers its runners.
type Known struct {
	// Hosted is set for github.com and *.ghe.com. GitHub Enterprise Server has a rule of its own: it takes the version
	// that it offers, and no end is known before it offers another.
	Hosted bool
	// Offered is the version that this GitHub offers for download, zero if it isn't known. It was first seen at
	// OfferedSince.
	Offered      Version
	OfferedSince time.Time
	// Releases are those that this GitHub lists beside the ones that this build knows, in any order.
	Releases []Release
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
	// before it says what it takes, a server is taken to follow the dates of github.com
	end, found := Known{Hosted: true, Releases: k.Releases}.End(v)
	return found && !now.Before(end.At)
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
	return fmt.Sprintf("it takes %s and later, each release until 30 days after the next one; the newest that is "+
		"known here is %s", Oldest, k.Newest())
}

// Newest returns the newest version that is known: of the list in this build, and of what this GitHub offers.
func (k Known) Newest() Version {
	if newest := Newest().Version; k.Offered.Before(newest) {
		return newest
	}
	return k.Offered
}

// At returns what is known of the GitHub at the address of a set, with what a status has of what it said, which may be
// nil. Anybody with rights in the namespace may have written a status: it is read as versions and times, and deceives
// only the set itself.
func At(configURL string, said *v1alpha1.RunnerVersionStatus) Known {
	config, err := actions.ParseConfigURL(configURL)
	known := Known{Hosted: err == nil && config.Hosted}
	if said == nil || said.URL != configURL {
		return known
	}
	known.Offered, _ = Parse(said.Newest)
	if said.NewestSince != nil {
		known.OfferedSince = said.NewestSince.Time
	}
	for _, r := range said.Releases {
		if v, ok := Parse(r.Version); ok {
			known.Releases = append(known.Releases, Release{Version: v, Published: r.PublishedAt.Time})
		}
	}
	return known
}
