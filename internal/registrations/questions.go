// Package registrations asks GitHub about the registrations of runners, outside of reconcile workers: about those of a
// set's runners (Questions), and which ones no runner has any more (Strays). What GitHub has answered about one
// registration are its Answers; what a set has found out about a runner for the runner's own controller is a verdict
// (Verdicts).
package registrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// GitHub is the part of the Actions service that is used.
type GitHub interface {
	// RemoveRunner fails with actions.ErrJobStillRunning if the runner has a job. It succeeds if the runner is already
	// gone.
	RemoveRunner(ctx context.Context, id int) error
	// GetRunner fails with actions.ErrRunnerNotFound if there is no such runner.
	GetRunner(ctx context.Context, id int) (*actions.RunnerReference, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound if there is no such runner.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// ListOfflineRunners fails with actions.ErrUnauthorized if the credentials don't allow it or GitHub can't do it.
	ListOfflineRunners(ctx context.Context, maxAge time.Duration) (*actions.OfflineRunners, error)
}

// Options have what questions and the search for strays need from outside.
type Options struct {
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Verdicts is told which registrations GitHub has removed, or refused to remove because of a job.
	Verdicts *Verdicts
	// Reader reads from the API server.
	Reader   client.Reader
	Pool     *pool.Pool
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Wake is called with the name of a set when a question for it has been answered.
	Wake func(set types.NamespacedName)
}

const (
	// GitHub is asked again at MissingGrace after its first answer that a runner is not registered: the service takes
	// some seconds to show a new registration everywhere.
	MissingGrace = 15 * time.Second
	// A question that GitHub did not answer, although the client has repeated it for up to 30 s, is asked again after
	// questionBackoff. That doubles with every further failure, up to longestQuestionBackoff, so that a failing GitHub
	// is not asked about a thousand runners all the time.
	questionBackoff        = 15 * time.Second
	longestQuestionBackoff = time.Minute
)

// Answer is GitHub's answer about a runner, or what follows from it.
type Answer int

const (
	None Answer = iota
	Removed
	Busy
	Registered
	Missing
	// A 404 that does not name GitHub's exception may come from a gateway in between, so less follows from it.
	PerhapsRemoved
	PerhapsMissing
	// NoJob: the runner exited without ever having had a job; GitHub would have removed its record after one.
	// NoKnownJob: the same, as far as is known, because GitHub can't tell.
	NoJob
	NoKnownJob
	// VersionRefused: the same, because GitHub refuses the version of its program.
	VersionRefused
)

// Answers hold GitHub's answers about a registration, with the times of the questions. They are lost in a restart: then
// GitHub is asked again.
type Answers struct {
	Busy      bool      // GitHub refused to remove it because it has a job
	RemovedAt time.Time // when GitHub first said that it has removed the runner or knows no such runner

	Removing      bool      // GitHub was asked to remove it, and has not answered yet
	AskedAt       time.Time // when GitHub was last asked about it
	RetryAt       time.Time // when to ask again after a question that got no answer
	failures      int       // questions in a row that got no answer
	MissingSince  time.Time // when the first of an unbroken row of "not registered" answers came
	missingByName bool      // GitHub itself said so, by the name of its exception
	Gone          bool      // two answers, far enough apart, said that it is not registered
	// RegisteredAt is the time of the latest question that GitHub answered with "registered".
	RegisteredAt time.Time
}

// Remember takes in GitHub's answer, or the error of the question.
func (a *Answers) Remember(call pool.Call[Answer], now time.Time) {
	a.Removing = false
	if call.Err != nil {
		a.failures++
		a.RetryAt = retryQuestionAt(call.Err, a.failures, now)
		return
	}
	a.failures = 0
	switch call.Result {
	case Removed, PerhapsRemoved:
		kube.SetIfZero(&a.RemovedAt, now)
	case Busy:
		a.Busy, a.MissingSince, a.missingByName = true, time.Time{}, false
	case Registered:
		a.MissingSince, a.missingByName, a.RegisteredAt = time.Time{}, false, a.AskedAt
	case Missing, PerhapsMissing:
		a.missingByName = a.missingByName || call.Result == Missing
		if !kube.SetIfZero(&a.MissingSince, now) && now.Sub(a.MissingSince) >= MissingGrace {
			a.Gone = true
		}
	}
}

// Unregistered reports whether GitHub has removed the runner or doesn't know it: it gets no job any more, and is
// deleted in this pass.
func (a *Answers) Unregistered() bool { return !a.RemovedAt.IsZero() || a.Gone }

// RecordRemoved reports whether GitHub no longer has the runner's record although nobody asked to remove it.
func (a *Answers) RecordRemoved() bool {
	return (a.missingByName || a.Gone) && a.RemovedAt.IsZero()
}

// Registration identifies one registration of a runner on GitHub. A runner that loses its pod before it had a job gets
// another one.
type Registration struct {
	Runner types.UID
	ID     int
}

// Subject is a runner about whose registration GitHub is asked.
type Subject struct {
	Registration
	Name string
	// HasJob is set if the runner is believed to have a job, so that not every answer may cost it its pod.
	HasJob bool
	// Ended is set if its container has ended and doesn't start again: it has no pod that would prove that the id is
	// its own.
	Ended bool
	// Own is set if the id is no copy's: the runner was created by this process, or under a name that its predecessor
	// had chosen.
	Own bool
	// Question is the last one about the registration. Another is asked when it has been answered.
	Question *pool.Last[Answer]

	scaleSet int // the id of the runner set's scale set
}

// Questions asks GitHub about runners in the background. Whoever asks keeps the answers.
type Questions struct{ Options }

// Remove asks GitHub to remove a registration. It reports whether it has asked: it does not if a question about it is
// under way. The set must not change afterwards, because the call outlasts the pass.
func (q Questions) Remove(set *v1alpha1.EphemeralRunnerSet, about Subject) bool {
	return q.ask(set, about, deregisterRunner)
}

// LookUp asks GitHub whether a registration exists. It is like remove otherwise.
func (q Questions) LookUp(set *v1alpha1.EphemeralRunnerSet, about Subject) bool {
	return q.ask(set, about, lookUpRunner)
}

func (q Questions) ask(
	set *v1alpha1.EphemeralRunnerSet, about Subject, do func(context.Context, GitHub, Subject) (Answer, error),
) bool {
	key, reference := client.ObjectKeyFromObject(set), credentials.ForEphemeralRunnerSet(set)
	about.scaleSet = set.Spec.EphemeralRunnerSpec.RunnerScaleSetID
	return about.Question.Go(q.Pool, q.Clock, key.String(), func(ctx context.Context) (Answer, error) {
		ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(set), "runner", about.Name)
		github, err := q.GitHub(ctx, reference)
		if err != nil {
			return None, fmt.Errorf("ask GitHub about runner %s: %w", about.Name, err)
		}
		said, err := do(ctx, recording{github, func(version string) {
			q.Verdicts.SeeVersion(about.Registration, version)
		}}, about)
		verdict := said
		if said == Missing && about.Ended {
			verdict = Removed
		}
		if verdict == Removed || verdict == Busy {
			q.Verdicts.Give(
				types.NamespacedName{Namespace: key.Namespace, Name: about.Name}, about.Registration, verdict,
			)
		}
		return said, err
	}, func() { q.Wake(key) })
}

// deregisterRunner asks GitHub to remove a runner's registration. It is looked for first if nothing proves that the id
// is the runner's own.
//
// Of a runner that has not ended only GitHub's agreement to remove it proves that it has no job: a look-up may be
// answered by a replica that doesn't know a new registration yet. If the id is another's and there is none of the
// runner's name, nothing can be removed; its own finalization then asks by the id that its pod has.
func deregisterRunner(ctx context.Context, github GitHub, about Subject) (Answer, error) {
	id := about.ID
	if about.Ended || !about.Own {
		found, said, err := findRunner(ctx, github, about)
		switch {
		case said == None:
			return None, err
		case said == Missing && about.Ended:
			return Removed, nil
		case said == PerhapsMissing && about.Ended, found == 0:
			return PerhapsRemoved, nil
		}
		id = found
	}
	return removeRegistration(ctx, github, id, about.HasJob)
}

// recording tells which version GitHub's record of a runner has, if it has one.
type recording struct {
	GitHub
	see func(version string)
}

func (r recording) GetRunner(ctx context.Context, id int) (*actions.RunnerReference, error) {
	found, err := r.GitHub.GetRunner(ctx, id)
	if err == nil && found.Version != "" {
		r.see(found.Version)
	}
	return found, err
}

func removeRegistration(ctx context.Context, github GitHub, id int, hasJob bool) (Answer, error) {
	switch err := github.RemoveRunner(ctx, id); {
	case err == nil:
		return Removed, nil
	case isGone(err, hasJob):
		return sureOr(err, Removed, PerhapsRemoved), nil
	case errors.Is(err, actions.ErrJobStillRunning):
		return Busy, nil
	default:
		return None, err
	}
}

// lookUpRunner asks GitHub whether it has the runner.
func lookUpRunner(ctx context.Context, github GitHub, about Subject) (Answer, error) {
	_, said, err := findRunner(ctx, github, about)
	return said, err
}

// findRunner returns the id under which GitHub has the runner. It returns the recorded id if GitHub has no runner with
// it, and 0 if that id is another runner's and GitHub has no runner of the name.
func findRunner(ctx context.Context, github GitHub, about Subject) (id int, said Answer, err error) {
	found, err := github.GetRunner(ctx, about.ID)
	switch {
	case err == nil && found.Name != "" && !strings.EqualFold(found.Name, about.Name):
		return findByName(ctx, github, about)
	case err == nil: // without a name it proves nothing
		return found.ID, Registered, nil
	case isGone(err, about.HasJob):
		return about.ID, sureOr(err, Missing, PerhapsMissing), nil
	default:
		return 0, None, err
	}
}

// findByName is findRunner if the recorded id is another runner's: the record is a copy's, or GitHub was itself
// restored from a backup. Then the name decides, which nobody else gets in the same scale set. That GitHub has none of
// that name costs no runner its job: nothing follows from it.
func findByName(ctx context.Context, github GitHub, about Subject) (id int, said Answer, err error) {
	found, err := github.GetRunnerByName(ctx, about.Name)
	if err == nil && (found.RunnerScaleSetID == 0 || about.scaleSet == 0 || found.RunnerScaleSetID == about.scaleSet) {
		return found.ID, Registered, nil
	}
	// A 404, perhaps of a gateway; a list without the runner is GitHub's own answer.
	_, isAnswer := errors.AsType[*actions.Error](err)
	switch {
	case err != nil && !errors.Is(err, actions.ErrRunnerNotFound):
		return 0, None, err
	case about.HasJob:
		return 0, None, nil
	case isAnswer:
		return 0, PerhapsMissing, nil
	}
	return 0, Missing, nil
}

// isGone reports whether the answer is that there is no such runner. If the runner has a job the answer must name
// GitHub's exception: any other 404 may come from a gateway in between, and would cost the job together with the
// runner's pod.
func isGone(err error, hasJob bool) bool {
	return errors.Is(err, actions.ErrRunnerNotFound) && (!hasJob || actions.NamesException(err))
}

func sureOr(err error, sure, perhaps Answer) Answer {
	if actions.NamesException(err) {
		return sure
	}
	return perhaps
}

// retryQuestionAt returns the time at which GitHub may be asked again after that many failed questions in a row, the
// last of which failed with err: not before the time that err names.
func retryQuestionAt(err error, failures int, now time.Time) time.Time {
	return actions.RetryAt(err, now.Add(reconcile.Backoff(questionBackoff, longestQuestionBackoff, failures)))
}
