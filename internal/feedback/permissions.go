package feedback

import (
	"maps"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const (
	// permissionBackoff passes after a refusal for lack of a permission before the next check run of the repository is
	// tried; a refused rerun is told for as long.
	permissionBackoff = time.Hour
	// A refused check run is told for refusalHolds: until the next one has been tried.
	refusalHolds = permissionBackoff + 10*time.Minute
)

// Permissions has the answers of GitHub to the requests of feedback. A refusal may be for lack of a permission, or
// because the repository is archived or not among those of the App: GitHub answers 403 to each. The zero value knows
// nothing.
type Permissions struct {
	// checks has the last answer about check runs in each repository, for as long as it counts. reruns is the last
	// answer about any rerun, and links that about where logs are.
	checks map[string]answer
	reruns answer
	links  answer
	// Trying is set while another check run is about to be tried, which may be one that GitHub takes.
	Trying bool
	// This process began to listen at since.
	since time.Time
}

// answer is GitHub's at a moment; refused is empty if it did what was asked.
type answer struct {
	refused string
	at      time.Time
}

// NoteCheck notes GitHub's answer about a check run in a repository: its refusal, empty if GitHub took the check run.
func (p *Permissions) NoteCheck(repository, refused string, at time.Time) {
	maps.DeleteFunc(p.checks, func(_ string, a answer) bool { return !at.Before(a.at.Add(refusalHolds)) })
	if p.checks == nil {
		p.checks = map[string]answer{}
	}
	p.checks[repository] = answer{refused, at}
}

// NoteRerun notes GitHub's answer about a rerun.
func (p *Permissions) NoteRerun(refused string, at time.Time) { p.reruns = answer{refused, at} }

// NoteLink notes GitHub's answer about where logs are, unless a later one is known.
func (p *Permissions) NoteLink(refused string, at time.Time) {
	if at.After(p.links.at) {
		p.links = answer{refused, at}
	}
}

// RetryLinksAt returns the time from which GitHub may be asked where logs are, zero if it has not refused that.
func (p *Permissions) RetryLinksAt() time.Time {
	if p.links.refused == "" {
		return time.Time{}
	}
	return p.links.at.Add(permissionBackoff)
}

// RetryAt returns the time from which the next check run in a repository may be tried; zero if none was refused.
func (p *Permissions) RetryAt(repository string) time.Time {
	if said := p.checks[repository]; said.refused != "" {
		return said.at.Add(permissionBackoff)
	}
	return time.Time{}
}

// Refusal names the permission that is missing for what is wanted, empty if none is. That holds until then; zero means
// until there is an answer. It is not known while something is tried. What was refused before a restart may still be
// refused until GitHub accepts the same, or for an hour.
func (p *Permissions) Refusal(wanted v1alpha1.Feedback, now time.Time) (refused string, known bool, until time.Time) {
	if p.since.IsZero() {
		p.since = now
	}
	check, accepted := p.refusedChecks(now)
	switch {
	case wanted.Checks && check.refused != "" && p.Trying:
		return "", false, time.Time{}
	case wanted.Checks && check.refused != "":
		return "check runs (feedback.checks) need a GitHub App with the repository permissions Checks: read and write and " +
			"Actions: read; GitHub says: " +
			check.refused, true, check.at.Add(refusalHolds)
	}
	if refused, until = p.refusedActions(wanted, now); refused != "" {
		return refused, true, until
	}
	granted := (accepted || !wanted.Checks) && (p.reruns.isGrant() || wanted.RerunLostJobs == nil) &&
		(p.links.isGrant() || !wanted.JobLinks)
	if doubt := p.since.Add(permissionBackoff); !granted && now.Before(doubt) {
		return "", false, doubt
	}
	return "", true, time.Time{}
}

// refusedActions names the permission for workflow runs that is missing, and until when that holds; empty if none is.
func (p *Permissions) refusedActions(wanted v1alpha1.Feedback, now time.Time) (refused string, until time.Time) {
	until = p.reruns.at.Add(permissionBackoff)
	if wanted.RerunLostJobs != nil && p.reruns.refused != "" && now.Before(until) {
		return "lost jobs can't be run again (feedback.rerunLostJobs) without the repository permission Actions: read and " +
			"write; GitHub says: " + p.reruns.refused, until
	}
	if until = p.RetryLinksAt(); wanted.JobLinks && now.Before(until) {
		return "links to the logs of jobs (feedback.jobLinks) need the repository permission Actions: read; GitHub says: " +
			p.links.refused, until
	}
	return "", time.Time{}
}

func (a answer) isGrant() bool { return !a.at.IsZero() && a.refused == "" }

// refusedChecks returns the newest refusal if GitHub refuses check runs in every repository about which it was asked
// lately, and whether it has taken one.
func (p *Permissions) refusedChecks(now time.Time) (newest answer, accepted bool) {
	for _, said := range p.checks {
		switch {
		case !now.Before(said.at.Add(refusalHolds)):
		case said.refused == "":
			return answer{}, true
		case said.at.After(newest.at):
			newest = said
		}
	}
	return newest, false
}
