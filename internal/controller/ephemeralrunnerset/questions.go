package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/requeue"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

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

// question identifies a question about one registration of a runner.
type question struct {
	set types.NamespacedName
	registration
}

func questionAbout(set types.NamespacedName, r *runnerView) question {
	return question{set: set, registration: registration{r.uid, r.registrationID}}
}

// questions asks GitHub about runners in the background and keeps the answers until the next pass.
type questions struct {
	github  func(context.Context, credentials.Reference) (GitHub, error)
	removed *removals.Memory
	calls   *pool.Calls[question, answer]
}

func newQuestions(options Options, wake func(types.NamespacedName)) *questions {
	return &questions{
		github:  options.GitHub,
		removed: options.Removed,
		calls:   pool.NewCalls[question, answer](options.Pool, options.Clock, func(q question) { wake(q.set) }),
	}
}

// ask asks the planned questions, except about runners with a question already under way. It returns how many removals it
// requested.
func (q *questions) ask(set *v1alpha1.EphemeralRunnerSet, h *history, p *plan) int {
	deregister, lookUp := p.with(actionDeregister), p.with(actionLookUp)
	if len(deregister)+len(lookUp) == 0 {
		return 0
	}
	set = set.DeepCopy() // the calls outlast the pass, which goes on to write the set's status
	asked := 0
	for _, r := range deregister {
		if q.askOne(set, h, r, deregisterRunner) {
			h.historyOf(r).removing = true
			asked++
		}
	}
	for _, r := range lookUp {
		q.askOne(set, h, r, lookUpRunner)
	}
	return asked
}

// askOne reports whether it has asked: it does not if a question about the runner is under way.
func (q *questions) askOne(
	set *v1alpha1.EphemeralRunnerSet, h *history, r *runnerView, do func(_ context.Context, _ GitHub, _ *runnerView, protected bool) (answer, error),
) bool {
	protected := !r.completed && h.slotOf(r) == slotWorking
	key, reference := client.ObjectKeyFromObject(set), credentials.ForEphemeralRunnerSet(set)
	asked := q.calls.Go(key.String(), questionAbout(key, r), func(ctx context.Context) (answer, error) {
		ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(set), "runner", r.name)
		github, err := q.github(ctx, reference)
		if err != nil {
			return answerNone, fmt.Errorf("ask GitHub about runner %s: %w", r.name, err)
		}
		said, err := do(ctx, github, r, protected)
		if said == answerRemoved || said == answerMissing && r.ended() {
			q.removed.Note(r.uid, r.registrationID)
		}
		if said == answerBusy {
			q.removed.NoteBusy(types.NamespacedName{Namespace: key.Namespace, Name: r.name}, r.uid, r.registrationID)
		}
		return said, err
	})
	if asked {
		h.historyOf(r).askedAt = h.now
	}
	return asked
}

// deregisterRunner asks GitHub to remove a runner's registration. That of a runner that has ended is looked at first: it has no pod that
// would prove that the id is its own.
func deregisterRunner(ctx context.Context, github GitHub, r *runnerView, protected bool) (answer, error) {
	if !r.ended() {
		return removeRegistration(ctx, github, r.registrationID, protected)
	}
	switch said, err := lookUpRunner(ctx, github, r, protected); said {
	case answerRegistered:
		return removeRegistration(ctx, github, r.registrationID, protected)
	case answerMissing:
		return answerRemoved, nil
	case answerPerhapsMissing:
		return answerPerhapsRemoved, nil
	default:
		return said, err
	}
}

func removeRegistration(ctx context.Context, github GitHub, id int, protected bool) (answer, error) {
	switch err := github.RemoveRunner(ctx, id); {
	case err == nil:
		return answerRemoved, nil
	case isGone(err, protected):
		return sureOr(err, answerRemoved, answerPerhapsRemoved), nil
	case errors.Is(err, actions.ErrJobStillRunning):
		return answerBusy, nil
	default:
		return answerNone, err
	}
}

// lookUpRunner asks GitHub whether it has the runner. An id under which it has another one is not the runner's.
func lookUpRunner(ctx context.Context, github GitHub, r *runnerView, protected bool) (answer, error) {
	switch found, err := github.GetRunner(ctx, r.registrationID); {
	case err == nil && !strings.EqualFold(found.Name, r.name):
		return answerMissing, nil
	case err == nil:
		return answerRegistered, nil
	case isGone(err, protected):
		return sureOr(err, answerMissing, answerPerhapsMissing), nil
	default:
		return answerNone, err
	}
}

// isGone reports whether the answer is that there is no such runner. If the runner has a job the answer must name GitHub's
// exception: any other 404 may come from a gateway in between, and would cost the job together with the runner's pod.
func isGone(err error, protected bool) bool {
	return errors.Is(err, actions.ErrRunnerNotFound) && (!protected || actions.NamesException(err))
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

// note moves the answers that have arrived into the history. Failures are logged once for all runners: they seldom concern a
// single one.
func (q *questions) note(ctx context.Context, h *history, set types.NamespacedName, runners []*runnerView) {
	failed, cause := 0, error(nil)
	for _, r := range runners {
		if h.historyOf(r).askedAt.IsZero() {
			continue
		}
		key := questionAbout(set, r)
		call, known := q.calls.Last(key)
		if !known || call.Running() {
			continue
		}
		q.calls.Forget(key)
		h.noteAnswer(r, call)
		if call.Err != nil {
			failed, cause = failed+1, call.Err
		}
	}
	if cause != nil {
		log.FromContext(ctx).Error(cause, "GitHub did not answer questions about runners, asking again", "runners", failed)
	}
}

// forget drops the questions about registrations that are over.
func (q *questions) forget(set types.NamespacedName, over []registration) {
	for _, registration := range over {
		q.calls.Forget(question{set: set, registration: registration})
	}
}

// note records GitHub's answer, or the error of the question.
func (past *runnerHistory) note(call pool.Call[answer], now time.Time) {
	past.removing = false
	if call.Err != nil {
		past.failures++
		past.retryAt = retryQuestionAt(call.Err, past.failures, now)
		return
	}
	past.failures = 0
	switch call.Result {
	case answerRemoved, answerPerhapsRemoved:
		kube.SetIfZero(&past.removedAt, now)
	case answerBusy:
		past.busy, past.missingSince, past.missingByName = true, time.Time{}, false
	case answerRegistered:
		past.missingSince, past.missingByName, past.registeredAt = time.Time{}, false, past.askedAt
	case answerMissing, answerPerhapsMissing:
		past.missingByName = past.missingByName || call.Result == answerMissing
		if !kube.SetIfZero(&past.missingSince, now) && now.Sub(past.missingSince) >= askMissingAgainAfter {
			past.gone = true
		}
	}
}
