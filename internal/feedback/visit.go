package feedback

import (
	"context"
	"errors"
	"net/http"
	"time"

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

// Visit looks at a run, and asks GitHub for the attempt that is written down: for the jobs with state Asked, if the
// attempt in which they ended is still the newest, so that nobody has asked yet. It may be repeated, also by another
// process: GitHub refuses a second attempt beside the first, and after it the newest is another one. It fails with
// *SpentError, or the errors of package rest.
func Visit(ctx context.Context, client *rest.Client, budget *Budget, of Run, lost []*Lost) (*Sighting, error) {
	repository, err := client.Repository(of.Repository)
	if err != nil {
		return nil, err
	}
	seen, err := look(ctx, client, budget, repository, of.ID, lost)
	if err != nil || !seen.Run.Ended() {
		return seen, err
	}
	var asked []*Lost
	for _, l := range lost {
		if l.isAskedIn(seen.Run.Attempt) && seen.jobOn(l.Runner) != nil {
			asked = append(asked, l)
		}
	}
	if len(asked) == 0 {
		return seen, nil
	}
	if failedAre(asked, seen) {
		err = client.RerunFailedJobs(ctx, repository, of.ID)
	} else {
		err = client.RerunJob(ctx, repository, of.ID, seen.jobOn(choose(asked, seen)[0].Runner).ID)
	}
	if err != nil && !errors.Is(err, rest.ErrRunGoesOn) {
		return nil, err
	}
	return look(ctx, client, budget, repository, of.ID, lost)
}

// look reads a run, and its jobs if something is decided by them. Pages of jobs count as one read: few runs have more
// than one page.
func look(
	ctx context.Context, client *rest.Client, budget *Budget, in rest.Repository, run int64, lost []*Lost,
) (*Sighting, error) {
	if err := budget.SpendRead(client.Account(), client.Now()); err != nil {
		return nil, err
	}
	found, err := client.GetRun(ctx, in, run)
	if err != nil {
		return nil, err
	}
	seen := &Sighting{Run: *found}
	needed := found.Ended()
	for _, l := range lost {
		needed = needed || (l.Rerun.Attempt != 0 && l.Rerun.Attempt < found.Attempt)
	}
	if needed {
		if err = budget.SpendRead(client.Account(), client.Now()); err != nil {
			return nil, err
		}
		seen.Jobs, err = client.ListJobs(ctx, in, run)
	}
	return seen, err
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

// GiveUp returns the verdicts for the undecided jobs of a run about which GitHub won't be asked any more, because of
// the error.
func GiveUp(lost []*Lost, err error) (verdicts []Verdict) {
	for _, l := range lost {
		if l.Undecided() {
			verdicts = append(verdicts, giveUp(l, "%v", err))
		}
	}
	return verdicts
}
