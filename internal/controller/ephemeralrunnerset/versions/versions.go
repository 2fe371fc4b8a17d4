// Package versions decides what the version of a runner's program means for its set: whether GitHub refused a runner
// that exited with 0, and how carefully an image is tried that GitHub may refuse. It is pure.
package versions

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	// Unnamed is set if it names none, and the image needn't be the newest.
	Unnamed bool
	// Recorded returns the version in GitHub's record of a registration, empty if it isn't known. It may be nil.
	Recorded func(registrations.Registration) string
}

// Of returns what is known of the versions of runners of a template, whose set has the status of origin.
func Of(
	spec *v1alpha1.EphemeralRunnerSpec, origin *v1alpha1.AutoscalingRunnerSet,
	recorded func(registrations.Registration) string,
) Seen {
	seen := Seen{Known: runnerversion.At(spec.GitHubConfigUrl, origin.Status.RunnerVersion), Recorded: recorded}
	if runner := kube.Container(&spec.PodSpec, v1alpha1.RunnerContainerName); runner != nil && runner.Image != "" {
		var named bool
		seen.Image, named = runnerversion.OfImage(runner.Image)
		seen.Unnamed = !named && !isNewest(runner)
	}
	return seen
}

// newest are the names of the image in which GitHub publishes its newest runner.
var newest = []string{"ghcr.io/actions/actions-runner", "ghcr.io/actions/actions-runner:latest"}

// isNewest reports whether each pod gets the newest runner: GitHub's own image, which is pulled anew for each. A node
// may still take it from a mirror that is behind; then a burst shows it, and not its first runners.
func isNewest(runner *corev1.Container) bool {
	return slices.Contains(newest, runner.Image) &&
		(runner.ImagePullPolicy == "" || runner.ImagePullPolicy == corev1.PullAlways)
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

// mostDoubtful is the number of runners that may be under way at a time of an image that GitHub may refuse, as far as is
// known: so many pods are lost at most before the first of them shows it.
const mostDoubtful = 8

// Untried returns how many runners of the template may be under way that have not shown yet that they can work; 0 is no
// limit. A runner that was created at provenAt has had a job, zero if none has: a proof until GitHub refuses further
// versions. shown is set if a runner has been up for longer than GitHub needs to refuse it.
//
// If GitHub refuses the version that the image's tag names, by its own rules, that is one: a burst of jobs costs one
// pod and not maxRunners. If nothing names the version, the first few show it, and the others wait for one start.
func (v *Seen) Untried(provenAt time.Time, shown bool, now time.Time) int {
	if v.Proven(provenAt, now) {
		return 0
	}
	switch refused := v.Known.Refuses(v.Image, now); {
	case refused && (v.Known.Hosted || !v.Known.Offered.IsZero()):
		return 1
	case refused, v.Unnamed && !shown:
		return mostDoubtful
	}
	return 0
}

// Proven reports whether GitHub takes the template's version, because a runner that was created at provenAt has had a
// job, and GitHub has begun to refuse nothing since.
func (v *Seen) Proven(provenAt, now time.Time) bool {
	return !provenAt.IsZero() && !provenAt.Before(v.Known.LastChange(now))
}
