package ephemeralrunnerset

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
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

// GitHub is the part of the Actions service that is used.
type GitHub interface {
	// RemoveRunner fails with actions.ErrJobStillRunning if the runner has a job. It succeeds if the runner is already gone.
	RemoveRunner(ctx context.Context, id int) error
	// GetRunner fails with actions.ErrRunnerNotFound if there is no such runner.
	GetRunner(ctx context.Context, id int) (*actions.RunnerReference, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound if there is no such runner.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// ListOfflineRunners fails with actions.ErrUnauthorized if the credentials don't allow it or GitHub can't do it.
	ListOfflineRunners(ctx context.Context, maxAge time.Duration) (*actions.OfflineRunners, error)
}

// githubOptions are what questions and the search for strays need from outside.
type githubOptions struct {
	// GitHub returns the client for a scale set's credentials.
	GitHub func(context.Context, credentials.Reference) (GitHub, error)
	// Removed is told which registrations GitHub has removed. It may be nil.
	Removed *removals.Memory
	// Reader reads from the API server.
	Reader   client.Reader
	Pool     *pool.Pool
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Wake is called with the name of a set when a question for it has been answered.
	Wake func(set types.NamespacedName)
}

// retryQuestionAfter is the pause after a question that GitHub did not answer, although the client has repeated it for up to
// 30 s. It doubles with every further failure, up to longestQuestionPause, so that a failing GitHub is not asked about a
// thousand runners all the time.
const (
	retryQuestionAfter   = 15 * time.Second
	longestQuestionPause = time.Minute
)

// answer is what GitHub answers about a runner.
type answer int

const (
	answerNone answer = iota
	answerRemoved
	answerBusy
	answerRegistered
	answerMissing
	// A 404 that does not name GitHub's exception may come from a gateway in between, so less follows from it.
	answerPerhapsRemoved
	answerPerhapsMissing
)

// answers are what GitHub has answered about a registration, and when it was asked. They are lost in a restart: then GitHub is asked
// once more.
type answers struct {
	busy      bool      // GitHub refused to remove it because it has a job
	removedAt time.Time // when GitHub first said that it has removed the runner or knows no such runner

	removing      bool      // GitHub was asked to remove it, and has not answered yet
	askedAt       time.Time // when GitHub was last asked about it
	retryAt       time.Time // when to ask again after a question that got no answer
	failures      int       // questions in a row that got no answer
	missingSince  time.Time // when the first of an unbroken row of "not registered" answers came
	missingByName bool      // GitHub itself said so, by the name of its exception
	gone          bool      // two answers, far enough apart, said that it is not registered
	// registeredAt is when the latest question was asked that GitHub answered with "registered".
	registeredAt time.Time
}

// note records GitHub's answer, or the error of the question.
func (a *answers) note(call pool.Call[answer], now time.Time) {
	a.removing = false
	if call.Err != nil {
		a.failures++
		a.retryAt = retryQuestionAt(call.Err, a.failures, now)
		return
	}
	a.failures = 0
	switch call.Result {
	case answerRemoved, answerPerhapsRemoved:
		kube.SetIfZero(&a.removedAt, now)
	case answerBusy:
		a.busy, a.missingSince, a.missingByName = true, time.Time{}, false
	case answerRegistered:
		a.missingSince, a.missingByName, a.registeredAt = time.Time{}, false, a.askedAt
	case answerMissing, answerPerhapsMissing:
		a.missingByName = a.missingByName || call.Result == answerMissing
		if !kube.SetIfZero(&a.missingSince, now) && now.Sub(a.missingSince) >= askMissingAgainAfter {
			a.gone = true
		}
	}
}

// unregistered reports whether GitHub has removed the runner or doesn't know it: it gets no job any more, and is deleted in this pass.
func (a *answers) unregistered() bool { return !a.removedAt.IsZero() || a.gone }

// recordRemoved reports whether GitHub no longer has the runner's record although nobody asked to remove it.
func (a *answers) recordRemoved() bool {
	return (a.missingByName || a.gone) && a.removedAt.IsZero()
}

// registration identifies one registration of a runner on GitHub. A runner that loses its pod before it had a job gets
// another one.
type registration struct {
	runner types.UID
	id     int
}

// subject is a runner about whose registration GitHub is asked.
type subject struct {
	registration
	name string
	// hasJob is set if the runner is believed to have a job, so that not every answer may cost it its pod.
	hasJob bool
	// ended is set if its container has ended for good.
	ended bool
}

// question identifies a question about one registration of a runner of a set.
type question struct {
	set types.NamespacedName
	registration
}

// questions asks GitHub about runners in the background and keeps the answers until the next pass. At most one question about a
// registration is under way.
type questions struct {
	github  func(context.Context, credentials.Reference) (GitHub, error)
	removed *removals.Memory
	calls   *pool.Calls[question, answer]
}

func newQuestions(options githubOptions) *questions {
	return &questions{
		github: options.GitHub, removed: options.Removed,
		calls: pool.NewCalls[question, answer](options.Pool, options.Clock, func(q question) { options.Wake(q.set) }),
	}
}

// remove asks GitHub to remove a registration. It reports whether it has asked: it does not if a question about it is under way. The
// set must not change afterwards, because the call outlasts the pass.
func (q *questions) remove(set *v1alpha1.EphemeralRunnerSet, about subject) bool {
	return q.ask(set, about, deregisterRunner)
}

// lookUp asks GitHub whether a registration exists. It is like remove otherwise.
func (q *questions) lookUp(set *v1alpha1.EphemeralRunnerSet, about subject) bool {
	return q.ask(set, about, lookUpRunner)
}

func (q *questions) ask(
	set *v1alpha1.EphemeralRunnerSet, about subject, do func(context.Context, GitHub, subject) (answer, error),
) bool {
	key, reference := client.ObjectKeyFromObject(set), credentials.ForEphemeralRunnerSet(set)
	return q.calls.Go(key.String(), question{key, about.registration}, func(ctx context.Context) (answer, error) {
		ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(set), "runner", about.name)
		github, err := q.github(ctx, reference)
		if err != nil {
			return answerNone, fmt.Errorf("ask GitHub about runner %s: %w", about.name, err)
		}
		said, err := do(ctx, github, about)
		if said == answerRemoved || said == answerMissing && about.ended {
			q.removed.Note(about.runner, about.id)
		}
		if said == answerBusy {
			q.removed.NoteBusy(types.NamespacedName{Namespace: key.Namespace, Name: about.name}, about.runner, about.id)
		}
		return said, err
	})
}

// take returns the answer to the last question about a registration, or its error, a single time.
func (q *questions) take(set types.NamespacedName, about registration) (call pool.Call[answer], answered bool) {
	key := question{set, about}
	call, asked := q.calls.Last(key)
	if !asked || call.Running() {
		return call, false
	}
	q.calls.Forget(key)
	return call, true
}

// forget drops the questions about registrations that are over.
func (q *questions) forget(set types.NamespacedName, over ...registration) {
	for _, registration := range over {
		q.calls.Forget(question{set: set, registration: registration})
	}
}

// deregisterRunner asks GitHub to remove a runner's registration. That of a runner that has ended is looked at first: it has no pod that
// would prove that the id is its own.
func deregisterRunner(ctx context.Context, github GitHub, about subject) (answer, error) {
	if !about.ended {
		return removeRegistration(ctx, github, about.id, about.hasJob)
	}
	switch said, err := lookUpRunner(ctx, github, about); said {
	case answerRegistered:
		return removeRegistration(ctx, github, about.id, about.hasJob)
	case answerMissing:
		return answerRemoved, nil
	case answerPerhapsMissing:
		return answerPerhapsRemoved, nil
	default:
		return said, err
	}
}

func removeRegistration(ctx context.Context, github GitHub, id int, hasJob bool) (answer, error) {
	switch err := github.RemoveRunner(ctx, id); {
	case err == nil:
		return answerRemoved, nil
	case isGone(err, hasJob):
		return sureOr(err, answerRemoved, answerPerhapsRemoved), nil
	case errors.Is(err, actions.ErrJobStillRunning):
		return answerBusy, nil
	default:
		return answerNone, err
	}
}

// lookUpRunner asks GitHub whether it has the runner. An id under which it has another one is not the runner's.
func lookUpRunner(ctx context.Context, github GitHub, about subject) (answer, error) {
	switch found, err := github.GetRunner(ctx, about.id); {
	case err == nil && !strings.EqualFold(found.Name, about.name):
		return answerMissing, nil
	case err == nil:
		return answerRegistered, nil
	case isGone(err, about.hasJob):
		return sureOr(err, answerMissing, answerPerhapsMissing), nil
	default:
		return answerNone, err
	}
}

// isGone reports whether the answer is that there is no such runner. If the runner has a job the answer must name GitHub's
// exception: any other 404 may come from a gateway in between, and would cost the job together with the runner's pod.
func isGone(err error, hasJob bool) bool {
	return errors.Is(err, actions.ErrRunnerNotFound) && (!hasJob || actions.NamesException(err))
}

func sureOr(err error, sure, perhaps answer) answer {
	if actions.NamesException(err) {
		return sure
	}
	return perhaps
}

// retryQuestionAt returns when GitHub may be asked again after that many failed questions in a row, the last of which failed
// with err: not before the time that err names.
func retryQuestionAt(err error, failures int, now time.Time) time.Time {
	return actions.RetryAt(err, now.Add(requeue.Backoff(retryQuestionAfter, longestQuestionPause, failures)))
}
