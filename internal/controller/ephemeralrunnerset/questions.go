package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

// retryQuestion is the shortest pause after a question that GitHub did not answer. The client has repeated it for 30 s by then.
const retryQuestion = 15 * time.Second

// answer is what GitHub says of a runner.
type answer int

const (
	answerRemoved answer = iota
	answerBusy
	answerRegistered
	answerMissing
)

// question is about one registration of a runner.
type question struct {
	set types.NamespacedName
	registration
}

func questionAbout(set types.NamespacedName, r *runner) question {
	return question{set: set, registration: registration{r.uid, r.registration}}
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

// ask asks what is planned, except about runners about whom a question is under way, and returns how many removals it
// asked for.
func (q *questions) ask(set *v1alpha1.EphemeralRunnerSet, m *memory, p *plan) int {
	if len(p.remove)+len(p.lookUp) == 0 {
		return 0
	}
	set = set.DeepCopy() // the calls outlast the pass, which goes on to write the set's status
	asked := 0
	for _, r := range p.remove {
		if q.askOne(set, m, r, removeRunner) {
			asked++
		}
	}
	for _, r := range p.lookUp {
		q.askOne(set, m, r, lookUpRunner)
	}
	return asked
}

func (q *questions) askOne(set *v1alpha1.EphemeralRunnerSet, m *memory, r *runner, do func(context.Context, GitHub, int) (answer, error)) bool {
	key, reference := client.ObjectKeyFromObject(set), credentials.ForEphemeralRunnerSet(set)
	asked := q.calls.Go(key.String(), questionAbout(key, r), func(ctx context.Context) (answer, error) {
		ctx = kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(set), "runner", r.name)
		github, err := q.github(ctx, reference)
		if err != nil {
			return 0, fmt.Errorf("ask GitHub about runner %s: %w", r.name, err)
		}
		said, err := do(ctx, github, r.registration)
		if err == nil && said == answerRemoved {
			q.removed.Note(r.uid, r.registration)
		}
		return said, err
	})
	if asked {
		m.past(r).asked = m.now
	}
	return asked
}

func removeRunner(ctx context.Context, github GitHub, id int) (answer, error) {
	err := github.RemoveRunner(ctx, id)
	if errors.Is(err, actions.ErrJobStillRunning) {
		return answerBusy, nil
	}
	return answerRemoved, err
}

func lookUpRunner(ctx context.Context, github GitHub, id int) (answer, error) {
	_, err := github.GetRunner(ctx, id)
	if errors.Is(err, actions.ErrRunnerNotFound) {
		return answerMissing, nil
	}
	return answerRegistered, err
}

// retryAt is when GitHub may be asked again after a question that failed: not before it wants to be.
func retryAt(err error, now time.Time) time.Time { return actions.RetryAt(err, now.Add(retryQuestion)) }

// note moves the answers that have come into the memory, and logs what kept others from coming, once for all of them:
// whatever it is, it is seldom about one runner.
func (q *questions) note(ctx context.Context, m *memory, set types.NamespacedName, runners []*runner) {
	unanswered, cause := 0, error(nil)
	for _, r := range runners {
		if m.past(r).asked.IsZero() {
			continue
		}
		key := questionAbout(set, r)
		call, known := q.calls.Last(key)
		if !known || call.Running() {
			continue
		}
		q.calls.Forget(key)
		m.past(r).note(call, m.now)
		if call.Err != nil {
			unanswered, cause = unanswered+1, call.Err
		}
	}
	if cause != nil {
		log.FromContext(ctx).Error(cause, "GitHub did not say whether runners may go, asking again", "runners", unanswered)
	}
}

// forget drops what was asked about registrations that nothing is to be known of any more.
func (q *questions) forget(set types.NamespacedName, over []registration) {
	for _, registration := range over {
		q.calls.Forget(question{set: set, registration: registration})
	}
}

func (p *past) note(call pool.Call[answer], now time.Time) {
	if call.Err != nil {
		p.retry = retryAt(call.Err, now)
		return
	}
	switch call.Result {
	case answerRemoved:
		kube.SetIfZero(&p.removed, now)
	case answerBusy:
		p.busy, p.missing = true, time.Time{}
	case answerRegistered:
		p.missing = time.Time{}
	case answerMissing:
		if !kube.SetIfZero(&p.missing, now) && now.Sub(p.missing) >= missingAgain {
			p.lost = true
		}
	}
}
