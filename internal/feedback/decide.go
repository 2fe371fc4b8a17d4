// Package feedback decides which lost jobs GitHub is asked to run again, and does so. A set's controller writes each
// decision down before it asks GitHub, so that neither a restart nor a lost answer makes a job run a third time, or
// leaves it without a decision.
//
// Lost is one job, and Policy has what the set's user wants. Visit looks at a workflow run, and asks for the attempts
// that are written down; Decide decides by what Visit has seen.
package feedback

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/rest"
)

const (
	// A job may be run again until rerunTimeout has passed since its loss: most runs have ended within it, and its author
	// still cares.
	rerunTimeout = 24 * time.Hour
	// After a loss, its run is left alone for lossBackoff: by then the losses of other jobs by the same cause are known,
	// too.
	lossBackoff = time.Minute
	// mostUndecided limits the lost jobs of a set that wait for their runs' ends: each keeps its runner's object.
	mostUndecided = 100
)

// Run is a workflow run, as a runner's status names it.
type Run struct {
	// Repository is OWNER/REPO.
	Repository string
	ID         int64
}

// Lost is a lost job.
type Lost struct {
	// Runner is the name of the runner on which it was lost, by which it is found among the jobs of its run.
	Runner string
	// Job is the name that the workflow's author gave it.
	Job   string
	Cause v1alpha1.LostCause
	// It was lost at At, by the API server's clock. Silent is set if its runner can't have told GitHub anything before
	// that.
	At     time.Time
	Silent bool
	Run    Run
	// Rerun has the decision so far; its state is empty if there is none.
	Rerun v1alpha1.RerunStatus
}

// Undecided reports whether it is yet to be decided whether the job is run again.
func (l *Lost) Undecided() bool {
	return l.Rerun.State != v1alpha1.RerunDone && l.Rerun.State != v1alpha1.RerunGivenUp
}

// isAskedIn reports whether GitHub may be asked to run the job again that ended in that attempt.
func (l *Lost) isAskedIn(attempt int) bool {
	return l.Rerun.State == v1alpha1.RerunAsked && l.Rerun.Attempt == attempt
}

// runsIn reports whether that attempt was asked for, for this job.
func (l *Lost) runsIn(attempt int) bool {
	return l.Rerun.State == v1alpha1.RerunDone && l.Rerun.Attempt == attempt
}

// Policy chooses the lost jobs that are run again.
type Policy struct {
	MaxAttempts int
	Causes      []v1alpha1.LostCause
}

// PolicyOf returns what a set's user wants, nil if no job is to be run again.
func PolicyOf(spec *v1alpha1.AutoscalingRunnerSetSpec) *Policy {
	if spec.Feedback == nil || spec.Feedback.RerunLostJobs == nil {
		return nil
	}
	wanted := spec.Feedback.RerunLostJobs
	return &Policy{MaxAttempts: max(wanted.MaxAttempts, 1), Causes: wanted.Causes}
}

// Verdict is the decision about a job.
type Verdict struct {
	Lost    *Lost
	State   v1alpha1.RerunState
	Attempt int
	Message string
}

func giveUp(l *Lost, format string, arguments ...any) Verdict {
	return Verdict{
		Lost:    l,
		State:   v1alpha1.RerunGivenUp,
		Attempt: l.Rerun.Attempt,
		Message: fmt.Sprintf(format, arguments...),
	}
}

// Screen decides about the jobs that are not run again, whatever GitHub says of their runs.
func (p *Policy) Screen(lost []*Lost, now time.Time) (given []Verdict) {
	waiting := 0
	for _, l := range lost {
		switch waiting++; {
		case !slices.Contains(p.Causes, l.Cause):
			given = append(given, giveUp(l, "%s is none of the causes in feedback.rerunLostJobs.causes", l.Cause))
		case l.Run.ID <= 0 || l.Run.Repository == "":
			given = append(given, giveUp(l, "GitHub has not named the job's workflow run"))
		case !now.Before(l.At.Add(rerunTimeout)):
			given = append(given, giveUp(l, "its workflow run has not ended, or GitHub has not answered, within %.0f h",
				rerunTimeout.Hours()))
		case waiting > mostUndecided:
			given = append(given, giveUp(l, "%d lost jobs of the scale set wait to be run again already", mostUndecided))
		default:
			continue
		}
		waiting--
	}
	return given
}

// Sighting has what GitHub has said of a run's newest attempt. Jobs are not listed while it goes on.
type Sighting struct {
	Run  rest.Run
	Jobs []rest.Job
}

// jobOn returns the job of the attempt that is, or was, on a runner, nil if there is none.
func (s *Sighting) jobOn(runner string) *rest.Job {
	for i := range s.Jobs {
		if strings.EqualFold(s.Jobs[i].RunnerName, runner) {
			return &s.Jobs[i]
		}
	}
	return nil
}

// Decide returns what follows for the lost jobs of one run from its sighting, in the order in which it must be written
// down. lost has all of the set's, decided or not, and beside those of other sets, which decide about them themselves.
func (p *Policy) Decide(lost, beside []*Lost, seen *Sighting, now time.Time) []Verdict {
	all := slices.Concat(lost, beside)
	var verdicts, confirmed []Verdict
	var candidates []*Lost
	for _, l := range lost {
		switch {
		case !l.Undecided():
		case l.Rerun.State == v1alpha1.RerunAsked:
			confirmed = append(confirmed, confirm(l, all, seen)...)
		default:
			verdict, eligible := p.judge(l, all, seen)
			verdicts = append(verdicts, verdict...)
			if eligible {
				candidates = append(candidates, l)
			}
		}
	}
	// Jobs that an attempt of ours has left for the next one are noted before that attempt's own are done: only these
	// show that it was ours.
	verdicts = append(verdicts, confirmed...)
	asking := slices.ContainsFunc(all, func(l *Lost) bool { return l.isAskedIn(seen.Run.Attempt) })
	settled := !slices.ContainsFunc(all, func(l *Lost) bool { return now.Before(l.At.Add(lossBackoff)) })
	var chosen []*Lost
	if settled && !asking { // one attempt at a time
		chosen = choose(candidates, seen)
	}
	for _, l := range candidates {
		if slices.Contains(chosen, l) {
			verdicts = append(verdicts, Verdict{
				Lost:    l,
				State:   v1alpha1.RerunAsked,
				Attempt: seen.Run.Attempt,
				Message: "GitHub is asked to run it again",
			})
		} else if l.Rerun.State == "" {
			verdicts = append(verdicts, want(l, seen))
		}
	}
	return verdicts
}

func want(l *Lost, seen *Sighting) Verdict {
	return Verdict{
		Lost:    l,
		State:   v1alpha1.RerunWanted,
		Attempt: seen.Run.Attempt,
		Message: "it is run again when its workflow run has ended",
	}
}

// confirm decides about a job for which GitHub was asked, or was about to be. If the attempt is still the same, it was
// not asked. Another set may have asked at the same time, for another job: this one waits for the end of that attempt.
func confirm(l *Lost, all []*Lost, seen *Sighting) []Verdict {
	switch {
	case seen.Run.Attempt <= l.Rerun.Attempt:
		return nil
	case seen.jobOn(l.Runner) != nil && hasBegunFor(all, seen, l.Rerun.Attempt):
		return []Verdict{want(l, seen)}
	case seen.jobOn(l.Runner) != nil:
		return []Verdict{giveUp(l, "attempt %d of the workflow run, which somebody else began, has not run it again",
			seen.Run.Attempt)}
	}
	return []Verdict{{
		Lost: l, State: v1alpha1.RerunDone, Attempt: l.Rerun.Attempt +
			1, Message: fmt.Sprintf("attempt %d of the workflow run has it", l.Rerun.Attempt+1),
	}}
}

// judge decides whether GitHub may be asked to run a job again, now or when its run has ended.
func (p *Policy) judge(l *Lost, all []*Lost, seen *Sighting) (verdicts []Verdict, eligible bool) {
	run, job := &seen.Run, seen.jobOn(l.Runner)
	first := l.Rerun.State == ""
	switch {
	case first && run.Attempt > p.MaxAttempts:
		return []Verdict{giveUp(l, "its workflow run is in attempt %d, and feedback.rerunLostJobs.maxAttempts is %d",
			run.Attempt, p.MaxAttempts)}, false
	case !first && run.Attempt != l.Rerun.Attempt && !isOurs(run.Attempt, l.Rerun.Attempt, all):
		return []Verdict{giveUp(l, "somebody else has begun attempt %d of the workflow run", run.Attempt)}, false
	case run.Attempt != l.Rerun.Attempt && (!first || !run.Ended()):
		return []Verdict{want(l, seen)}, false // it is chosen when that is written down
	case !run.Ended():
		return nil, false
	case job == nil:
		return []Verdict{giveUp(l, "no job in attempt %d of the workflow run was on its runner", run.Attempt)}, false
	case !job.FailedOrCancelled():
		return []Verdict{giveUp(l, "it has a result: GitHub says %s", cmp.Or(known(job.Conclusion), "nothing known"))}, false
	case job.Conclusion != rest.ConclusionCancelled:
		return nil, true
	case cancelledByPerson(all, seen):
		return []Verdict{giveUp(l, "its workflow run seems to have been cancelled: another job, which was not lost, is "+
			"cancelled, too")}, false
	case l.cancelledByOthers(job):
		return []Verdict{giveUp(l, "it was cancelled on GitHub, by somebody or by a newer run of its concurrency group: "+
			"its runner was lost, and can't have said that")}, false
	}
	return nil, true
}

// known returns a conclusion if it is one of GitHub's documented ones.
func known(conclusion string) string {
	documented := []string{"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required",
		"stale"}
	if slices.Contains(documented, conclusion) {
		return conclusion
	}
	return ""
}

// isOurs reports whether the newest attempt is the one that was asked for in the attempt before.
func isOurs(newest, before int, all []*Lost) bool {
	return newest == before+1 && slices.ContainsFunc(all,
		func(l *Lost) bool { return l.isAskedIn(before) || l.runsIn(newest) })
}

// hasBegunFor reports whether the newest attempt runs a job that was asked for in the attempt before.
func hasBegunFor(all []*Lost, seen *Sighting, before int) bool {
	return seen.Run.Attempt == before+1 && slices.ContainsFunc(all, func(l *Lost) bool {
		return l.runsIn(seen.Run.Attempt) || (l.isAskedIn(before) && seen.jobOn(l.Runner) == nil)
	})
}

// cancelledByPerson reports whether a job is cancelled that was on no lost runner. GitHub cancels an evicted job by
// itself.
func cancelledByPerson(all []*Lost, seen *Sighting) bool {
	return slices.ContainsFunc(seen.Jobs, func(job rest.Job) bool {
		onLost := slices.ContainsFunc(all, func(l *Lost) bool { return strings.EqualFold(l.Runner, job.RunnerName) })
		return job.Conclusion == rest.ConclusionCancelled && !onLost
	})
}

// GitHub may still report what the runner told it at its end until farewell has passed since the loss. Neither clock is
// ours.
const farewell = time.Minute

// cancelledByOthers reports whether it can't have been the runner that cancelled its job. One that is told to stop, as
// by a drain, a taint, a preemption, a shutdown of its node or a deletion, cancels its job while it ends: that is no
// reason not to run it again. One that isn't, because it was killed or its node is gone, says nothing, and GitHub calls
// its job failed after some minutes. So whoever cancelled a job whose runner was silent, or was long gone by then,
// meant to.
func (l *Lost) cancelledByOthers(job *rest.Job) bool {
	return l.Silent || job.CompletedAt.After(l.At.Add(farewell))
}

// choose picks the jobs for which GitHub is asked next: all in one request if no other job of the attempt has failed,
// or else the first.
func choose(candidates []*Lost, seen *Sighting) []*Lost {
	if len(candidates) < 2 || failedAre(candidates, seen) {
		return candidates
	}
	return []*Lost{slices.MinFunc(candidates,
		func(a, b *Lost) int { return cmp.Compare(seen.jobOn(a.Runner).ID, seen.jobOn(b.Runner).ID) })}
}

// failedAre reports whether the jobs are all that have failed or were cancelled in the attempt.
func failedAre(jobs []*Lost, seen *Sighting) bool {
	return !slices.ContainsFunc(seen.Jobs, func(job rest.Job) bool {
		among := slices.ContainsFunc(jobs, func(l *Lost) bool { return strings.EqualFold(l.Runner, job.RunnerName) })
		return job.FailedOrCancelled() && !among
	})
}
