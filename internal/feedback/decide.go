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
	// mostUndecided limits the lost jobs of a set that wait for their runs' ends: each keeps its runner's object, of some
	// 6 kB. A zone that goes takes 3,000.
	mostUndecided = 10_000
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
	// Overtakes is set if an older run is run again over a newer one.
	Overtakes bool
}

// PolicyOf returns what a set's user wants, nil if no job is to be run again.
func PolicyOf(spec *v1alpha1.AutoscalingRunnerSetSpec) *Policy {
	if spec.Feedback == nil || spec.Feedback.RerunLostJobs == nil {
		return nil
	}
	wanted := spec.Feedback.RerunLostJobs
	return &Policy{MaxAttempts: max(wanted.MaxAttempts, 1), Causes: wanted.Causes,
		Overtakes: wanted.IfNewerRun == v1alpha1.NewerRunIgnored}
}

// Verdict is the decision about a job.
type Verdict struct {
	Lost    *Lost
	State   v1alpha1.RerunState
	Attempt int
	Message string
	// Consequences are those that the decision is also about.
	Consequences *v1alpha1.RerunConsequences
	// Reason says why the job is not run again, if it is given up.
	Reason v1alpha1.RerunReason
	// On is the job as GitHub lists it on the lost runner, nil if it has not been listed.
	On *rest.Job
}

func verdictOn(l *Lost, state v1alpha1.RerunState, attempt int, format string, arguments ...any) Verdict {
	return Verdict{Lost: l, State: state, Attempt: attempt, Message: fmt.Sprintf(format, arguments...),
		Consequences: l.Rerun.Consequences}
}

// giveUp ends the story of a lost job, or, if it runs again already, that of the jobs that were to follow it.
func giveUp(l *Lost, reason v1alpha1.RerunReason, format string, arguments ...any) Verdict {
	if l.runsAgain() {
		recorded := l.Rerun.Consequences
		return done(l, recorded.Attempt, "; of %d jobs that GitHub cancelled because of its loss, %d do not run again: %s",
			recorded.Jobs, recorded.Left, fmt.Sprintf(format, arguments...))
	}
	verdict := verdictOn(l, v1alpha1.RerunGivenUp, l.Rerun.Attempt, format, arguments...)
	verdict.Reason = reason
	return verdict
}

// done ends the story of a lost job that an attempt has again.
func done(l *Lost, attempt int, format string, arguments ...any) Verdict {
	return verdictOn(l, v1alpha1.RerunDone, attempt, "attempt %d of the workflow run has it%s", attempt,
		fmt.Sprintf(format, arguments...))
}

// Screen decides about the jobs that are not run again, whatever GitHub says of their runs. If too many wait, those that
// come last in lost are given up.
func (p *Policy) Screen(lost []*Lost, now time.Time) (given []Verdict) {
	waiting := 0
	for _, l := range lost {
		switch waiting++; {
		case !slices.Contains(p.Causes, l.Cause):
			given = append(given, giveUp(l, v1alpha1.RerunCauseNotChosen, "%s is none of the causes in feedback.rerunLostJobs.causes", l.Cause))
		case l.Run.ID <= 0 || l.Run.Repository == "":
			given = append(given, giveUp(l, v1alpha1.RerunJobUnknown, "GitHub has not named the job's workflow run"))
		case !now.Before(l.At.Add(rerunTimeout)):
			given = append(given, giveUp(l, v1alpha1.RerunTooLate, "its workflow run has not ended, or GitHub has not answered, within %.0f h",
				rerunTimeout.Hours()))
		case waiting > mostUndecided:
			given = append(given, giveUp(l, v1alpha1.RerunTooManyWait, "%d lost jobs of the scale set wait to be run again already", mostUndecided))
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
	// Newer is a run that has overtaken this one, so that nothing was asked; nil if there is none, or none was looked for.
	Newer *rest.Run
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
	settled := !slices.ContainsFunc(all, func(l *Lost) bool { return now.Before(l.At.Add(lossBackoff)) })
	var verdicts, left, confirmed []Verdict
	var candidates []*Lost
	for _, l := range lost {
		switch {
		case !l.Undecided():
		case l.Rerun.State == v1alpha1.RerunAsked && seen.jobOn(l.Runner) != nil:
			left = append(left, confirm(l, all, seen)...)
		case l.Rerun.State == v1alpha1.RerunAsked:
			confirmed = append(confirmed, confirm(l, all, seen)...)
		default:
			verdict, eligible := p.judge(l, all, seen, settled)
			verdicts = append(verdicts, verdict...)
			if eligible {
				candidates = append(candidates, l)
			}
		}
	}
	// Jobs that an attempt of ours has left for the next one are noted before that attempt's own are done: only these
	// show that it was ours.
	decided := slices.Concat(verdicts, left, confirmed, askFor(candidates, all, seen, settled))
	for i := range decided {
		decided[i].On = seen.jobOn(decided[i].Lost.Runner)
	}
	return decided
}

// askFor returns the verdicts on jobs that may run again: those for which GitHub is asked now, and others that are not
// written down yet.
func askFor(candidates, all []*Lost, seen *Sighting, settled bool) (verdicts []Verdict) {
	asking := slices.ContainsFunc(all, func(l *Lost) bool { // and what the attempt before has left is to be noted
		return l.isAskedIn(seen.Run.Attempt) || l.isAskedIn(seen.Run.Attempt-1)
	})
	// Of several, each is written down before any is asked for: one that isn't would find an attempt that is not its own.
	unwritten := len(candidates) > 1 && slices.ContainsFunc(candidates, func(l *Lost) bool { return l.Rerun.State == "" })
	var chosen []*Lost
	if settled && !asking && !unwritten { // one attempt at a time
		chosen = choose(candidates, all, seen)
	}
	first, cancelled := seen.consequences(all)
	for _, l := range candidates {
		if slices.Contains(chosen, l) {
			ask := verdictOn(l, v1alpha1.RerunAsked, seen.Run.Attempt, "GitHub is asked to run it again")
			if l == first && !slices.ContainsFunc(all, func(other *Lost) bool { return other.hasCancelled(cancelled[0]) }) {
				ask.Consequences = seen.record(first, cancelled)
			}
			verdicts = append(verdicts, ask)
		} else if l.Rerun.State == "" {
			verdicts = append(verdicts, want(l, seen))
		}
	}
	return verdicts
}

func want(l *Lost, seen *Sighting) Verdict {
	message := "it is run again when its workflow run has ended"
	if l.runsAgain() {
		message = l.Rerun.Message
	}
	return verdictOn(l, v1alpha1.RerunWanted, seen.Run.Attempt, "%s", message)
}

// confirm decides about a job for which GitHub was asked, or was about to be. If the attempt is still the same, it was
// not asked. Another set may have asked at the same time, for another job: this one waits for the end of that attempt.
func confirm(l *Lost, all []*Lost, seen *Sighting) []Verdict {
	switch {
	case l.isAskedIn(seen.Run.Attempt) && seen.Newer != nil:
		return []Verdict{giveUp(l, v1alpha1.RerunNewerRun, "run %d of the workflow, for the same branch and event, is newer, and "+
			"feedback.rerunLostJobs.ifNewerRun is GiveUp", seen.Newer.Number)}
	case seen.Run.Attempt <= l.Rerun.Attempt:
		return nil
	case seen.jobOn(l.Runner) != nil && hasBegunFor(all, seen, l.Rerun.Attempt):
		return []Verdict{want(l, seen)}
	case seen.jobOn(l.Runner) != nil:
		return []Verdict{giveUp(l, v1alpha1.RerunBegunByOthers, "attempt %d of the workflow run, which somebody else began, has not run it again",
			seen.Run.Attempt)}
	}
	return []Verdict{confirmed(l, all, seen)}
}

// judge decides whether GitHub may be asked to run a job again, now or when its run has ended. Who has cancelled what is
// asked once the losses are settled.
func (p *Policy) judge(l *Lost, all []*Lost, seen *Sighting, settled bool) (verdicts []Verdict, eligible bool) {
	run, job := &seen.Run, seen.jobOn(l.Runner)
	first := l.Rerun.State == ""
	switch {
	case l.runsAgain():
		return judgeFollowing(l, all, seen)
	case first && run.Attempt > p.MaxAttempts:
		return []Verdict{giveUp(l, v1alpha1.RerunAttemptsUsed, "its workflow run is in attempt %d, and feedback.rerunLostJobs.maxAttempts is %d",
			run.Attempt, p.MaxAttempts)}, false
	case !first && run.Attempt != l.Rerun.Attempt && !isOurs(run.Attempt, l.Rerun.Attempt, all):
		return []Verdict{giveUp(l, v1alpha1.RerunBegunByOthers, "somebody else has begun attempt %d of the workflow run", run.Attempt)}, false
	case run.Attempt != l.Rerun.Attempt && (!first || !run.Ended()):
		return []Verdict{want(l, seen)}, false // it is chosen when that is written down
	case !run.Ended():
		return nil, false
	case job == nil:
		return []Verdict{giveUp(l, v1alpha1.RerunJobUnknown, "no job in attempt %d of the workflow run was on its runner", run.Attempt)}, false
	case !job.FailedOrCancelled():
		return []Verdict{giveUp(l, v1alpha1.RerunHasResult, "it has a result: GitHub says %s", cmp.Or(known(job.Conclusion), "nothing known"))}, false
	case !settled:
		return nil, true
	}
	verdicts = whoCancelled(l, job, all, seen)
	return verdicts, len(verdicts) == 0
}

// whoCancelled gives a job up if somebody has cancelled it or its run, as far as GitHub's answers tell.
func whoCancelled(l *Lost, job *rest.Job, all []*Lost, seen *Sighting) []Verdict {
	switch {
	case job.Conclusion != rest.ConclusionCancelled && seen.cancelledAfter(job, all):
		return []Verdict{giveUp(l, v1alpha1.RerunCanceled, "its workflow run seems to have been cancelled: other jobs are, and nothing shows that "+
			"GitHub did that because of its loss")}
	case job.Conclusion != rest.ConclusionCancelled, seen.isConsequence(job, all):
		return nil
	case cancelledByPerson(all, seen):
		return []Verdict{giveUp(l, v1alpha1.RerunCanceled, "its workflow run seems to have been cancelled: another job, which was not lost, is "+
			"cancelled, too")}
	case l.cancelledByOthers(job):
		return []Verdict{giveUp(l, v1alpha1.RerunCanceled, "it was cancelled on GitHub, by somebody or by a newer run of its concurrency group: "+
			"its runner was lost, and can't have said that")}
	}
	return nil
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
		func(l *Lost) bool { return l.isAskedIn(before) || l.runsIn(newest) || l.began(newest) })
}

// hasBegunFor reports whether the newest attempt runs a job that was asked for in the attempt before.
func hasBegunFor(all []*Lost, seen *Sighting, before int) bool {
	return seen.Run.Attempt == before+1 && slices.ContainsFunc(all, func(l *Lost) bool {
		return l.runsIn(seen.Run.Attempt) || l.began(seen.Run.Attempt) || (l.isAskedIn(before) && seen.jobOn(l.Runner) == nil)
	})
}

// cancelledByPerson reports whether a job is cancelled that was on no lost runner. GitHub cancels an evicted job by
// itself.
func cancelledByPerson(all []*Lost, seen *Sighting) bool {
	return slices.ContainsFunc(seen.Jobs, func(job rest.Job) bool {
		return job.Conclusion == rest.ConclusionCancelled && lostOn(&job, all) == nil && !seen.isConsequence(&job, all)
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
// but for consequences of their loss, or else the first. Jobs that are yet to follow one that runs again come last.
func choose(candidates, all []*Lost, seen *Sighting) []*Lost {
	fresh := slices.DeleteFunc(slices.Clone(candidates), func(l *Lost) bool { return l.runsAgain() })
	if len(fresh) == 0 {
		return candidates[:min(len(candidates), 1)]
	}
	if len(fresh) < 2 || failedAre(fresh, all, seen) {
		return fresh
	}
	return []*Lost{slices.MinFunc(fresh,
		func(a, b *Lost) int { return cmp.Compare(seen.jobOn(a.Runner).ID, seen.jobOn(b.Runner).ID) })}
}

// failedAre reports whether the jobs, with the consequences of their loss, are all that have failed or were cancelled in
// the attempt.
func failedAre(jobs, all []*Lost, seen *Sighting) bool {
	first, consequences := seen.consequences(all)
	if !slices.Contains(jobs, first) {
		consequences = nil
	}
	for i := range seen.Jobs {
		job := &seen.Jobs[i]
		if job.FailedOrCancelled() && lostOn(job, jobs) == nil && !slices.Contains(consequences, job) {
			return false
		}
	}
	return true
}
