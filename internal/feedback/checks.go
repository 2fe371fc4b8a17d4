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
	"github.com/harrier-ci/harrier/internal/meaning"
)

// The subjects of check runs, as their records have them.
const (
	AboutWaiting = "Waiting"
	AboutLost    = "Lost"
)

// CauseUnknown is the cause of waiting if the set knows none; package meaning has its words, too.
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

// Story is what there is to tell to the authors of a set's jobs.
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

// Long returns the jobs that have waited for so long, and when the next of the others will have, zero if there is none.
func Long(waiting []v1alpha1.WaitingJob, after time.Duration, now time.Time) (long []v1alpha1.WaitingJob, next time.Time) {
	for i := range waiting {
		switch due := waiting[i].Since().Add(after); {
		case !now.Before(due):
			long = append(long, waiting[i])
		case next.IsZero() || due.Before(next):
			next = due
		}
	}
	return long, next
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
			wanted[at].Job = s.Told[i].Job // it is in the name, by which the check run is found again
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
		return v1alpha1.CheckRecord{Repository: j.Repository, RunID: j.RunID, About: AboutWaiting, Cause: cause,
			Job: plain(j.Name, "a job")}
	}) {
		names, since := []string{}, time.Time{}
		for _, job := range jobs.members {
			if since.IsZero() || job.Since().Before(since) {
				since = job.Since()
			}
			names = append(names, code(job.Name))
		}
		checks = append(checks, Check{
			CheckRecord: jobs.record,
			Title: fmt.Sprintf("Waiting for a runner since %s: %s", since.UTC().Format("2 January, 15:04 UTC"),
				meaning.For(cause).ToAuthor()),
			Summary: fmt.Sprintf("Jobs that wait for a runner of `%s`:\n\n%s\nWhy: %s (%s). %s", s.ScaleSet, list(names),
				meaning.For(cause).ToAuthor(), cause,
				"Nothing is wrong with the commit, and this check does not count. It is updated when they have a runner."),
		})
	}
	return checks
}

// lost returns a check for each run with a lost job, and each cause.
func (s *Story) lost() (checks []Check) {
	for _, jobs := range grouped(s.Lost, func(l *Lost) v1alpha1.CheckRecord {
		return v1alpha1.CheckRecord{Repository: l.Run.Repository, RunID: l.Run.ID, About: AboutLost,
			Cause: string(l.Cause), Job: plain(l.Job, "a job")}
	}) {
		var told []string
		loss := meaning.OfLoss(jobs.members[0].Cause)
		jobs.record.Over = true
		for _, l := range jobs.members {
			told = append(told, code(l.Job)+": "+s.outcome(l))
			jobs.record.Over = jobs.record.Over && (!s.Reruns || !l.Undecided())
		}
		checks = append(checks, Check{
			CheckRecord: jobs.record,
			Title:       fmt.Sprintf("Lost with the runner: %s", loss.Author),
			Summary: fmt.Sprintf("Jobs on runners of `%s` that were lost, whatever GitHub says of them:\n\n%s\n"+
				"Why: %s (%s). %s This check does not count.", s.ScaleSet, list(told),
				loss.Author, jobs.record.Cause, loss.Commit),
		})
	}
	return checks
}

// outcome returns the sentence about the rerun of a lost job.
func (s *Story) outcome(l *Lost) string {
	switch {
	case !s.Reruns:
		return "run it again from the page of the workflow run"
	case l.Rerun.Consequences != nil && (l.runsAgain() || l.Rerun.State == v1alpha1.RerunDone):
		return "it runs again: " + code(l.Rerun.Message)
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
		s.ScaleSet, meaning.For(record.Cause).ToAuthor(), record.Cause)}
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

// mostPlain limits a name within another, in bytes.
const mostPlain = 80

// plain returns a name that others have chosen as part of another one, or what it is called if it is empty.
func plain(name, otherwise string) string {
	name = actions.Printable(strings.ToValidUTF8(name[:min(len(name), mostPlain)], ""))
	return cmp.Or(strings.TrimSpace(name), otherwise)
}

// code returns a text of at most 300 bytes as Markdown's code, in which nothing is more than text: neither a link nor a
// mention. Whoever opens a pull request chooses the names of its jobs.
func code(text string) string {
	text = actions.Printable(strings.ToValidUTF8(text[:min(len(text), 300)], ""))
	return "`" + cmp.Or(strings.TrimSpace(strings.ReplaceAll(text, "`", "'")), "unknown") + "`"
}
