// Package versions decides what the version of a runner's program means for its set: whether GitHub refused a runner
// that exited with 0, and how carefully an image is tried that GitHub may refuse. It is pure.
package versions

import (
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/registrations"
	"github.com/harrier-ci/harrier/internal/runnerversion"
)

// Seen is what a pass knows of the versions of a set's runners. Whoever wrote the image's tag, or runs a program
// that tells GitHub a wrong version, deceives nobody but this set.
type Seen struct {
	// Known is what is known of the set's GitHub.
	Known runnerversion.Known
	// Image is the version that the tag of the template's image names, zero if it names none.
	Image runnerversion.Version
	// Recorded returns the version in GitHub's record of a registration, empty if it isn't known. It may be nil.
	Recorded func(registrations.Registration) string
}

// Of returns what is known of the versions of runners of a template, whose set has the status of origin.
func Of(
	spec *v1alpha1.EphemeralRunnerSpec, origin *v1alpha1.AutoscalingRunnerSet,
	recorded func(registrations.Registration) string,
) Seen {
	image, _ := runnerversion.OfImage(kube.Image(&spec.PodSpec, v1alpha1.RunnerContainerName))
	known := runnerversion.At(spec.GitHubConfigUrl)
	if said := origin.Status.RunnerVersion; said != nil && said.URL == spec.GitHubConfigUrl {
		known.Offered, _ = runnerversion.Parse(said.Newest)
	}
	return Seen{Known: known, Image: image, Recorded: recorded}
}

// of returns the version of a runner's program, zero if it isn't known, and whether the program has told it to GitHub
// itself: then it had connected.
func (v *Seen) of(r *roster.Runner) (version runnerversion.Version, connected bool) {
	if v.Recorded != nil {
		text := v.Recorded(registrations.Registration{Runner: r.UID, ID: r.RegistrationID})
		if version, connected = runnerversion.Parse(text); connected {
			return version, true
		}
	}
	return v.Image, false
}

// Refused reports whether GitHub refused a runner that exited with 0 without a job, because of its version.
func (v *Seen) Refused(r *roster.Runner, now time.Time) bool {
	version, connected := v.of(r)
	return v.Known.RefusedSilently(version, connected, now)
}

// mostDoubtful is the number of runners that may be under way at a time of an image that GitHub Enterprise Server, which
// has not said what it takes, may refuse.
const mostDoubtful = 8

// Untried returns how many runners may be under way that have not shown yet that they can work, as long as none of
// their template has had a job; 0 is no limit. If GitHub refuses the version that the image's tag names, by its own
// rules, that is one: a burst of jobs costs one pod and not maxRunners.
func (v *Seen) Untried(now time.Time) int {
	switch {
	case !v.Known.Refuses(v.Image, now):
		return 0
	case v.Known.Hosted || !v.Known.Offered.IsZero():
		return 1
	default:
		return mostDoubtful
	}
}
