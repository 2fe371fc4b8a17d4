package feedback

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/rest"
)

// GitHub cancels the other jobs of a matrix when one of them fails, unless its strategy has fail-fast: false. Nothing in
// its answers says so of a job that is cancelled; whoever cancels something else cancels the whole run, whose conclusion
// is cancelled then. So jobs count as consequences of a loss if
//
//   - the run failed, and was not cancelled,
//   - no job failed that was on no lost runner,
//   - the first of them ended within promptCancellation after the first lost job that failed, and
//   - all did within longestCancellation: a runner that is told has five minutes, and its steps may take them.
//
// In doubt they are none.
const (
	promptCancellation  = time.Minute
	longestCancellation = 6 * time.Minute
)

// consequences returns the first lost job that failed, and the jobs that GitHub has cancelled because of it; nil if
// there are none, or if that is in doubt.
func (s *Sighting) consequences(all []*Lost) (first *Lost, cancelled []*rest.Job) {
	if s.Run.Conclusion != rest.ConclusionFailure {
		return nil, nil
	}
	var failed *rest.Job
	for i := range s.Jobs {
		job := &s.Jobs[i]
		on := lostOn(job, all)
		switch {
		case job.Conclusion == rest.ConclusionCancelled && on == nil:
			cancelled = append(cancelled, job)
		case !job.FailedOrCancelled() || job.Conclusion == rest.ConclusionCancelled:
		case on == nil || job.CompletedAt.IsZero():
			return nil, nil
		case failed == nil || job.CompletedAt.Before(failed.CompletedAt):
			first, failed = on, job
		}
	}
	if failed == nil || len(cancelled) == 0 || !isPrompt(failed, cancelled) {
		return nil, nil
	}
	return first, cancelled
}

// isPrompt reports whether jobs were cancelled in the time in which GitHub does that after one has failed.
func isPrompt(failed *rest.Job, cancelled []*rest.Job) bool {
	prompt := false
	for _, job := range cancelled {
		if !followed(failed, job) {
			return false
		}
		prompt = prompt || !job.CompletedAt.After(failed.CompletedAt.Add(promptCancellation))
	}
	return prompt
}

// followed reports whether a job may have been cancelled because another had failed.
func followed(failed, cancelled *rest.Job) bool {
	return !failed.CompletedAt.IsZero() && !cancelled.CompletedAt.Before(failed.CompletedAt) &&
		!cancelled.CompletedAt.After(failed.CompletedAt.Add(longestCancellation))
}

// isConsequence reports whether a job was cancelled because a lost one had failed, in this attempt or, as is recorded, in
// an earlier one.
func (s *Sighting) isConsequence(job *rest.Job, all []*Lost) bool {
	first, _ := s.consequences(all)
	return (first != nil && followed(s.jobOn(first.Runner), job)) ||
		slices.ContainsFunc(all, func(l *Lost) bool { return l.hasCancelled(job) })
}

// hasCancelled reports whether a job is recorded as cancelled because of a loss.
func (l *Lost) hasCancelled(job *rest.Job) bool {
	recorded := l.Rerun.Consequences
	return recorded != nil && job.Conclusion == rest.ConclusionCancelled &&
		!job.CompletedAt.Before(recorded.From.Time) && !job.CompletedAt.After(recorded.Until.Time)
}

// cancelledAfter reports whether jobs were cancelled after a lost one had failed, and nobody knows why: perhaps somebody
// has cancelled the run. What was cancelled before doesn't matter: GitHub would have cancelled the lost one, too.
func (s *Sighting) cancelledAfter(lost *rest.Job, all []*Lost) bool {
	return slices.ContainsFunc(s.Jobs, func(job rest.Job) bool {
		if job.Conclusion != rest.ConclusionCancelled || lostOn(&job, all) != nil || s.isConsequence(&job, all) ||
			(!job.CompletedAt.IsZero() && job.CompletedAt.Before(lost.CompletedAt)) {
			return false
		}
		return s.Run.Conclusion == rest.ConclusionCancelled || !slices.ContainsFunc(s.Jobs, func(failed rest.Job) bool {
			return failed.FailedOrCancelled() && failed.Conclusion != rest.ConclusionCancelled && followed(&failed, &job)
		})
	})
}

// lostOn returns the lost job of the runner that had a job, nil if it was no lost runner.
func lostOn(job *rest.Job, all []*Lost) *Lost {
	at := slices.IndexFunc(all, func(l *Lost) bool { return strings.EqualFold(l.Runner, job.RunnerName) })
	if at < 0 {
		return nil
	}
	return all[at]
}

// record is the record of jobs that were cancelled because of a loss, among them others that were lost.
func (s *Sighting) record(first *Lost, cancelled []*rest.Job) *v1alpha1.RerunConsequences {
	failed := s.jobOn(first.Runner)
	until := failed.CompletedAt
	for i := range s.Jobs {
		if job := &s.Jobs[i]; job.Conclusion == rest.ConclusionCancelled && followed(failed, job) &&
			job.CompletedAt.After(until) {
			until = job.CompletedAt
		}
	}
	return &v1alpha1.RerunConsequences{From: metav1.NewTime(failed.CompletedAt), Until: metav1.NewTime(until),
		Jobs: len(cancelled), Left: len(cancelled)}
}

// left returns the jobs that were cancelled because of a loss and that the attempt has not run again, the first first.
// GitHub carries them over as they ended; whatever an attempt after the loss has run ended later.
func (s *Sighting) left(l *Lost, all []*Lost) (left []*rest.Job) {
	for i := range s.Jobs {
		if job := &s.Jobs[i]; l.hasCancelled(job) && lostOn(job, all) == nil {
			left = append(left, job)
		}
	}
	slices.SortFunc(left, func(a, b *rest.Job) int { return cmp.Compare(a.ID, b.ID) })
	return left
}

// runsAgain reports whether an attempt has the lost job again, and jobs that were cancelled because of its loss are yet
// to follow.
func (l *Lost) runsAgain() bool {
	return l.Undecided() && l.Rerun.Consequences != nil && l.Rerun.Consequences.Attempt > 0
}

// began reports whether that attempt was asked for, for a job that was cancelled because of this one's loss.
func (l *Lost) began(attempt int) bool {
	return l.Rerun.Consequences != nil && l.Rerun.Consequences.Began == attempt
}

// confirmed decides about a lost job that the attempt after the one in which it was asked for has again, or that had it
// before: some reports say that GitHub runs cancelled jobs again with those that failed, others that it doesn't. Those
// that it has left run again one after the other.
func confirmed(l *Lost, all []*Lost, seen *Sighting) Verdict {
	recorded := l.Rerun.Consequences
	if recorded == nil {
		return done(l, l.Rerun.Attempt+1, "")
	}
	next := *recorded
	next.Attempt = cmp.Or(recorded.Attempt, l.Rerun.Attempt+1)
	left := seen.left(l, all)
	others := slices.DeleteFunc(slices.Clone(all), func(other *Lost) bool { return other == l })
	asked := l.Rerun.Attempt
	ours := recorded.Attempt == 0 || len(left) < recorded.Left || isOurs(asked+1, asked, others)
	for later := asked + 2; later <= seen.Run.Attempt; later++ { // another set's, before this one has looked
		ours = ours && isOurs(later, later-1, others)
	}
	switch {
	case len(left) == 0:
		next.Began = asked + 1
		return allFollowed(l, next)
	case !ours:
		return done(l, next.Attempt, "; of %d jobs that GitHub cancelled because of its loss, %d do not run again: somebody "+
			"else has begun attempt %d", next.Jobs, len(left), seen.Run.Attempt)
	}
	next.Began, next.Left = seen.Run.Attempt, len(left)
	verdict := verdictOn(l, v1alpha1.RerunWanted, seen.Run.Attempt, "attempt %d of the workflow run has it; %d jobs that "+
		"GitHub cancelled because of its loss follow, one after the other", next.Attempt, len(left))
	verdict.Consequences = &next
	return verdict
}

// allFollowed ends the story of a lost job with which all run again that were cancelled because of its loss.
func allFollowed(l *Lost, recorded v1alpha1.RerunConsequences) Verdict {
	recorded.Left = 0
	verdict := done(l, recorded.Attempt, "; %d jobs that GitHub cancelled because of its loss run again, too",
		recorded.Jobs)
	verdict.Consequences = &recorded
	return verdict
}

// judgeFollowing is judge for a job that runs again, and for those that are yet to follow it.
func judgeFollowing(l *Lost, all []*Lost, seen *Sighting) (verdicts []Verdict, eligible bool) {
	switch run := &seen.Run; {
	case run.Attempt != l.Rerun.Attempt && !isOurs(run.Attempt, l.Rerun.Attempt, all):
		return []Verdict{giveUp(l, v1alpha1.RerunBegunByOthers, "somebody else has begun attempt %d of the workflow run", run.Attempt)}, false
	case run.Attempt != l.Rerun.Attempt:
		return []Verdict{want(l, seen)}, false
	case run.Ended() && len(seen.left(l, all)) == 0:
		return []Verdict{allFollowed(l, *l.Rerun.Consequences)}, false
	default:
		return nil, run.Ended()
	}
}
