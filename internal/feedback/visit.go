package feedback

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
)

const (
	// A run that goes on is looked at again after a tenth of the time since the loss, within these: 37 times in the
	// first hour, 91 times in a day.
	firstLook, lastLook = 30 * time.Second, 30 * time.Minute
	// The looks of one scale set lie lookShare apart on average: 900 an hour, or 90 % of what its App may read.
	lookShare = 4 * time.Second
)

// NextLook returns the time from one look at a run to the next, by the time since its jobs were lost and by the number
// of the scale set's runs that wait.
func NextLook(sinceLoss time.Duration, runs int) time.Duration {
	return max(min(max(sinceLoss/10, firstLook), lastLook), time.Duration(runs)*lookShare)
}

// Question is what a visit is about.
type Question struct {
	Run Run
	// Lost are the set's lost jobs of the run, Beside those of other sets, as Decide has them.
	Lost, Beside []*Lost
	// Before is what the last visit has seen, nil if nothing or if it failed: the jobs of an attempt that had ended are not
	// read again.
	Before *Sighting
}

// Visit looks at a run, and asks GitHub for the attempt that is written down: for the jobs with state Asked, if the
// attempt in which they ended is still the newest, so that nobody has asked yet. It may be repeated, also by another
// process: GitHub refuses a second attempt beside the first, and after it the newest is another one. Unless the policy
// overtakes, nothing is asked if a newer run is seen just before. It fails with *SpentError, or the errors of package
// rest.
func (p *Policy) Visit(ctx context.Context, client *rest.Client, budget *Budget, q *Question) (*Sighting, error) {
	client = paying(client, budget)
	repository, err := client.Repository(q.Run.Repository)
	if err != nil {
		return nil, err
	}
	seen, err := q.look(ctx, client, repository)
	if err != nil || !seen.Run.Ended() {
		return seen, err
	}
	ask := q.request(client, repository, seen)
	if ask == nil {
		return seen, nil
	}
	if !p.Overtakes {
		if seen.Newer, err = client.NewerRun(ctx, repository, &seen.Run); err != nil {
			return nil, err
		}
		if seen.Newer != nil {
			return seen, nil
		}
	}
	if err := budget.SpendRerun(client.Account(), client.Now()); err != nil {
		return nil, err
	}
	if err := ask(ctx); err != nil && !errors.Is(err, rest.ErrRunGoesOn) {
		return nil, err
	}
	return q.look(ctx, client, repository)
}

// request returns the request that is written down and that nobody has made yet, nil if there is none.
func (q *Question) request(client *rest.Client, in rest.Repository, seen *Sighting) func(context.Context) error {
	all := slices.Concat(q.Lost, q.Beside)
	asked, follows := []*Lost(nil), []*rest.Job(nil)
	for _, l := range q.Lost {
		switch {
		case !l.isAskedIn(seen.Run.Attempt):
		case l.runsAgain():
			follows = append(follows, seen.left(l, all)...)
		case seen.jobOn(l.Runner) != nil:
			asked = append(asked, l)
		}
	}
	job := int64(0)
	switch {
	case len(asked) == 0 && len(follows) == 0:
		return nil
	case len(asked) == 0:
		job = follows[0].ID
	case failedAre(asked, all, seen):
		return func(ctx context.Context) error { return client.RerunFailedJobs(ctx, in, q.Run.ID) }
	default:
		job = seen.jobOn(choose(asked, all, seen)[0].Runner).ID
	}
	return func(ctx context.Context) error { return client.RerunJob(ctx, in, q.Run.ID, job) }
}

// look reads a run, and its jobs if something is decided by them.
func (q *Question) look(ctx context.Context, client *rest.Client, in rest.Repository) (*Sighting, error) {
	found, err := client.GetRun(ctx, in, q.Run.ID)
	if err != nil {
		return nil, err
	}
	seen := &Sighting{Run: *found}
	needed := found.Ended()
	for _, l := range q.Lost {
		needed = needed || (l.Rerun.Attempt != 0 && l.Rerun.Attempt < found.Attempt)
	}
	switch before := q.Before; {
	case !needed:
	case before != nil && before.Run.Ended() && found.Ended() && before.Run.Attempt == found.Attempt:
		seen.Jobs = before.Jobs
	default:
		if seen.Jobs, err = client.ListJobs(ctx, in, q.Run.ID); err != nil {
			return nil, err // a run without its jobs would be taken for one that has none
		}
	}
	return seen, nil
}

// IsFinal reports whether a visit's error will not pass by itself: the run's jobs are not run again.
func IsFinal(err error) bool {
	if errors.Is(err, rest.ErrForeignRepository) || errors.Is(err, rest.ErrTooManyJobs) ||
		errors.Is(err, rest.ErrRunExpired) {
		return true
	}
	answer, answered := errors.AsType[*actions.Error](err)
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	return answered && !limited && actions.IsRejected(err) && answer.StatusCode != http.StatusUnauthorized
}

// WhyGivenUp returns the reason for which jobs are not run again after a visit's error that is final.
func WhyGivenUp(err error) v1alpha1.RerunReason {
	switch {
	case errors.Is(err, rest.ErrForeignRepository):
		return v1alpha1.RerunJobUnknown
	case LacksPermission(err):
		return v1alpha1.RerunPermissionMissing
	}
	return v1alpha1.RerunRefused
}

// GiveUp returns the verdicts for the undecided jobs of a run about which GitHub won't be asked any more, for a reason
// and because of the error.
func GiveUp(lost []*Lost, reason v1alpha1.RerunReason, err error) (verdicts []Verdict) {
	for _, l := range lost {
		if l.Undecided() {
			verdicts = append(verdicts, giveUp(l, reason, "%v", err))
		}
	}
	return verdicts
}
