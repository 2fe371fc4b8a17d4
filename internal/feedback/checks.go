package feedback

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
)

// The subjects of check runs, as their records have them.
const (
	AboutWaiting = "Waiting"
	AboutLost    = "Lost"
)

// CauseUnknown is the cause of waiting if the set knows none.
const CauseUnknown = "Unknown"

// mostChecks limits the check runs that a set keeps: the limit of status.checks.
const mostChecks = 100

// Check has the content of a check run on the commit of a workflow run. There is one for each run and cause.
type Check struct {
	v1alpha1.CheckRecord // whose Over means that this is its last word
	Title, Summary       string
}

// Digest returns 16 hexadecimal digits that tell two contents of a check run apart.
func (c *Check) Digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%t", c.Title, c.Summary, c.Over))
	return hex.EncodeToString(sum[:8])
}

// Key identifies a check run of a set.
type Key struct {
	Run          Run
	About, Cause string
}

// KeyOf returns the key of a record.
func KeyOf(r *v1alpha1.CheckRecord) Key {
	return Key{Run: Run{Repository: r.Repository, ID: r.RunID}, About: r.About, Cause: r.Cause}
}

// Story has all that there is to tell to the authors of a set's jobs.
type Story struct {
	// ScaleSet is its name, which authors know from runs-on.
	ScaleSet string
	// Waiting are the jobs that have waited for long, and Why is the reason for which they wait, in one word.
	Waiting []v1alpha1.WaitingJob
	Why     string
	// Lost are the lost jobs whose runners are still there. Reruns is set if they are run again.
	Lost   []*Lost
	Reruns bool
	// Told are the records of what was told.
	Told []v1alpha1.CheckRecord
}

// Checks returns the check runs with their contents: those that are recorded first, and of others as many as a set may
// have.
func (s *Story) Checks() []Check {
	wanted := append(s.waiting(), s.lost()...)
	var checks []Check
	for i := range s.Told {
		told := KeyOf(&s.Told[i])
		at := slices.IndexFunc(wanted, func(c Check) bool { return KeyOf(&c.CheckRecord) == told })
		switch {
		case at >= 0:
			checks = append(checks, wanted[at])
			wanted = slices.Delete(wanted, at, at+1)
		case !s.Told[i].Over:
			checks = append(checks, s.over(s.Told[i]))
		}
	}
	checks = append(checks, wanted...)
	return checks[:min(len(checks), mostChecks)]
}

// waiting returns a check for each run with a job that waits.
func (s *Story) waiting() (checks []Check) {
	cause := cmp.Or(s.Why, CauseUnknown)
	for _, jobs := range grouped(s.Waiting, func(j v1alpha1.WaitingJob) v1alpha1.CheckRecord {
		return v1alpha1.CheckRecord{Repository: j.Repository, RunID: j.RunID, About: AboutWaiting, Cause: cause}
	}) {
		names, since := []string{}, time.Time{}
		for _, job := range jobs.members {
			queued := job.AssignedAt.Time
			if job.QueuedAt != nil {
				queued = job.QueuedAt.Time
			}
			if since.IsZero() || queued.Before(since) {
				since = queued
			}
			names = append(names, code(job.Name))
		}
		checks = append(checks, Check{
			CheckRecord: jobs.record,
			Title: fmt.Sprintf("Waiting for a runner since %s: %s", since.UTC().Format("2 January, 15:04 UTC"),
				whyWaiting(cause)),
			Summary: fmt.Sprintf("Jobs that wait for a runner of `%s`:\n\n%s\nWhy: %s (%s). %s", s.ScaleSet, list(names),
				whyWaiting(cause), cause,
				"Nothing is wrong with the commit, and this check does not count. It is updated when they have a runner."),
		})
	}
	return checks
}

// lost returns a check for each run with a lost job, and each cause.
func (s *Story) lost() (checks []Check) {
	for _, jobs := range grouped(s.Lost, func(l *Lost) v1alpha1.CheckRecord {
		return v1alpha1.CheckRecord{Repository: l.Run.Repository, RunID: l.Run.ID, About: AboutLost, Cause: string(l.Cause)}
	}) {
		var told []string
		jobs.record.Over = true
		for _, l := range jobs.members {
			told = append(told, code(l.Job)+": "+s.outcome(l))
			jobs.record.Over = jobs.record.Over && (!s.Reruns || !l.Undecided())
		}
		checks = append(checks, Check{
			CheckRecord: jobs.record,
			Title:       fmt.Sprintf("Lost with the runner: %s", whyLost(jobs.members[0].Cause)),
			Summary: fmt.Sprintf("Jobs on runners of `%s` that were lost, whatever GitHub says of them:\n\n%s\n"+
				"Why: %s (%s). %s This check does not count.", s.ScaleSet, list(told),
				whyLost(jobs.members[0].Cause), jobs.record.Cause, whoseFault(jobs.members[0].Cause)),
		})
	}
	return checks
}

// outcome returns the sentence about the rerun of a lost job.
func (s *Story) outcome(l *Lost) string {
	switch {
	case !s.Reruns:
		return "run it again from the page of the workflow run"
	case l.Rerun.State == v1alpha1.RerunDone:
		return fmt.Sprintf("it runs again in attempt %d of the workflow run", l.Rerun.Attempt)
	case l.Rerun.State == v1alpha1.RerunGivenUp:
		return "it is not run again: " + code(l.Rerun.Message)
	}
	return "it is run again when the workflow run has ended, unless you do that yourself, or cancel it"
}

// over returns the last word of a check run whose subject is over.
func (s *Story) over(record v1alpha1.CheckRecord) Check {
	record.Over = true
	check := Check{CheckRecord: record, Title: "No longer waiting for this", Summary: fmt.Sprintf(
		"The jobs that waited for a runner of `%s` have one, are gone, or wait for something else now. They waited "+
			"because %s (%s).",
		s.ScaleSet, whyWaiting(record.Cause), record.Cause)}
	if record.About == AboutLost {
		check.Title, check.Summary = "Lost with the runner",
			"Nothing more is known of these jobs: look at the newest attempt of the workflow run."
	}
	return check
}

// group has the jobs or losses of one check run.
type group[T any] struct {
	record  v1alpha1.CheckRecord
	members []T
}

// grouped puts together the members of each check run, in the order of the first of each. Runs that GitHub can't know
// are left out.
func grouped[T any](all []T, recordOf func(T) v1alpha1.CheckRecord) (groups []*group[T]) {
	known := map[Key]*group[T]{}
	for _, one := range all {
		record := recordOf(one)
		if record.RunID <= 0 || record.Repository == "" {
			continue
		}
		of := known[KeyOf(&record)]
		if of == nil {
			of = &group[T]{record: record}
			known[KeyOf(&record)], groups = of, append(groups, of)
		}
		of.members = append(of.members, one)
	}
	return groups
}

// mostNamed limits the jobs that a check run names.
const mostNamed = 20

// list returns a list for readers of Markdown.
func list(entries []string) string {
	var text strings.Builder
	for _, entry := range entries[:min(len(entries), mostNamed)] {
		fmt.Fprintf(&text, "- %s\n", entry)
	}
	if more := len(entries) - mostNamed; more > 0 {
		fmt.Fprintf(&text, "- and %d more\n", more)
	}
	return text.String()
}

// code returns a text of at most 300 bytes as Markdown's code, in which nothing is more than text: neither a link nor a
// mention. Whoever opens a pull request chooses the names of its jobs.
func code(text string) string {
	text = actions.Printable(strings.ToValidUTF8(text[:min(len(text), 300)], ""))
	return "`" + cmp.Or(strings.TrimSpace(strings.ReplaceAll(text, "`", "'")), "unknown") + "`"
}

// whyWaiting explains a cause to an author. It names no node, image or quota: whoever reads the repository reads it.
func whyWaiting(cause string) string {
	switch cause {
	case v1alpha1.ReasonDrained, v1alpha1.ReasonMaxRunnersZero:
		return "the scale set starts no runners at present"
	case v1alpha1.ReasonStartsLimited:
		return "the scale set starts as many runners a minute as it may"
	case v1alpha1.ReasonVolumeClaimsExhausted:
		return "all volumes with the runners' caches are in use"
	case v1alpha1.ReasonMaxRunnersReached:
		return "all runners that the scale set may have are at work"
	case v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonPodsForbidden:
		return "a quota of the cluster allows no more runners"
	case "Unschedulable", v1alpha1.ReasonPodsUnschedulable, v1alpha1.ReasonCapacityUnproven:
		return "no node of the cluster has room for the runner"
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable":
		return "the runner's image can't be pulled"
	case "SchedulingGated":
		return "a queue of the cluster has not let the runner through yet"
	case "RunnerVersionRefused":
		return "GitHub refuses the runner's version"
	case CauseUnknown:
		return "the cluster gives no reason; runners may be starting"
	}
	return "its runners don't start"
}

// whoseFault explains whether the commit can be the cause of a loss.
func whoseFault(cause v1alpha1.LostCause) string {
	switch cause {
	case v1alpha1.LostCauseOOMKilled:
		return "The job may need more memory than its runner has, with this commit or before it."
	case v1alpha1.LostCauseContainerFailed, v1alpha1.LostCauseUnknown:
		return "Whether the commit has to do with that is not known."
	}
	return "Nothing is wrong with the commit."
}

func whyLost(cause v1alpha1.LostCause) string {
	switch cause {
	case v1alpha1.LostCauseEvicted:
		return "its pod was evicted from its node"
	case v1alpha1.LostCauseNodeLost:
		return "its node was shut down or lost"
	case v1alpha1.LostCausePreempted:
		return "its pod had to make room for a more important one"
	case v1alpha1.LostCauseOOMKilled:
		return "it ran out of memory"
	case v1alpha1.LostCausePodDeleted:
		return "somebody deleted its pod"
	case v1alpha1.LostCauseContainerFailed:
		return "the runner failed"
	}
	return "nobody saw why"
}
