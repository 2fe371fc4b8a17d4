package registrations_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

var (
	start       = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	errNoAnswer = errors.New("connection reset")
	// errRunnerNotFound is GitHub's own answer that there is no such runner.
	errRunnerNotFound = &actions.Error{
		StatusCode: http.StatusNotFound,
		TypeName:   "GitHub.Runners.AgentNotFoundException",
	}
)

// ourScaleSet is the id of the scale set whose runners GitHub is asked about.
const ourScaleSet = 1

// ask has GitHub asked in the background, and returns what follows from the answer.
func ask(
	t *testing.T, question func(registrations.Questions, *v1alpha1.EphemeralRunnerSet, registrations.Subject) bool,
	github registrations.GitHub, about registrations.Subject,
) (answer registrations.Answer, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "set"}}
		set.Spec.EphemeralRunnerSpec.RunnerScaleSetID = ourScaleSet
		about.Question = &pool.Last[registrations.Answer]{}
		if !question(registrations.Questions{Options: inBackground(t, github)}, set, about) {
			t.Error("GitHub is not asked")
		}
		synctest.Wait()
		call, ended := about.Question.Take()
		if !ended {
			t.Error("there is no answer")
		}
		answer, err = call.Result, call.Err
	})
	return answer, err
}

// inBackground returns options with which GitHub is asked by a pool that runs until the end of the test.
func inBackground(t *testing.T, github registrations.GitHub) registrations.Options {
	t.Helper()
	workers := pool.New(1, clock.RealClock{})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() { _ = workers.Start(ctx) }()
	return registrations.Options{
		GitHub: func(context.Context, credentials.Reference) (registrations.GitHub, error) { return github, nil },
		Pool:   workers, Clock: clock.RealClock{}, Verdicts: registrations.NewVerdicts(clock.RealClock{}),
		Wake: func(types.NamespacedName) {},
	}
}

// Log lines about a call to GitHub carry the name of the scale set, as users know it, and not that of the set that
// belongs to it.
func TestQuestionsAreLoggedByScaleSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		ctx, cancel := context.WithCancel(log.IntoContext(
			t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}),
		))
		defer cancel()
		workers := pool.New(1, clock.RealClock{})
		go func() { _ = workers.Start(ctx) }()
		q := registrations.Questions{registrations.Options{
			Pool:  workers,
			Clock: clock.RealClock{},
			GitHub: func(ctx context.Context, _ credentials.Reference) (registrations.GitHub, error) {
				log.FromContext(ctx).Info("asked")
				return nil, context.Canceled
			},
			Wake: func(types.NamespacedName) {},
		}}
		q.Remove(&v1alpha1.EphemeralRunnerSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux-x7k2p", Labels: map[string]string{
				v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "runners",
			}},
		}, registrations.Subject{Name: "linux-x7k2p-runner-abcde", Question: &pool.Last[registrations.Answer]{}})
		synctest.Wait()
		if all := strings.Join(logged, "\n"); !strings.Contains(
			all, `"scaleSet"="runners/linux" "runner"="linux-x7k2p-runner-abcde"`,
		) {
			t.Errorf("logged %s", all)
		}
	})
}

// A gateway that can't reach GitHub answers 404 as well, without the name of GitHub's exception. That must not cost a
// runner with a job.
func TestNotFoundForARunnerWithAJobMustBeGitHubs(t *testing.T) {
	unnamed := &actions.Error{Endpoint: actions.EndpointRemoveRunner, StatusCode: http.StatusNotFound}
	for name, test := range map[string]struct {
		err             error
		protected       bool
		removed, looked registrations.Answer
		fails           bool
	}{
		"GitHub's, idle":          {errRunnerNotFound, false, registrations.Removed, registrations.Missing, false},
		"GitHub's, with a job":    {errRunnerNotFound, true, registrations.Removed, registrations.Missing, false},
		"without a name, idle":    {unnamed, false, registrations.PerhapsRemoved, registrations.PerhapsMissing, false},
		"without a name, working": {unnamed, true, registrations.None, registrations.None, true},
	} {
		github, about := answering{err: test.err}, registrations.Subject{HasJob: test.protected, Own: true}
		if removed, err := ask(t, registrations.Questions.Remove, github, about); removed != test.removed ||
			(err != nil) != test.fails {
			t.Errorf("%s: the removal is %v, %v", name, removed, err)
		}
		if looked, err := ask(t, registrations.Questions.LookUp, github, about); looked != test.looked ||
			(err != nil) != test.fails {
			t.Errorf("%s: the question is %v, %v", name, looked, err)
		}
	}
}

// A backup tool restores a runner's status under another name, people edit copies, and a GitHub that is restored gives
// ids again.
func TestAnIDUnderWhichGitHubHasAnotherRunnerIsNotTheRunners(t *testing.T) {
	for name, test := range map[string]struct {
		github  *registry
		about   registrations.Subject
		looked  registrations.Answer
		fails   bool
		asked   registrations.Answer // what follows if it is to be removed
		removed int                  // the registration that is
	}{
		"its own": {&registry{7: "runner"}, registrations.Subject{}, registrations.Registered, false, registrations.Removed, 7},
		"its own, in capitals": {
			&registry{7: "RUNNER"}, registrations.Subject{HasJob: true}, registrations.Registered, false, registrations.Removed, 7,
		},
		"one without a name": {
			&registry{7: ""}, registrations.Subject{HasJob: true}, registrations.Registered, false, registrations.Removed, 7,
		},
		"another's": {
			&registry{7: "original"}, registrations.Subject{}, registrations.Missing, false, registrations.PerhapsRemoved, 0,
		},
		"another's, and it has ended": {
			&registry{7: "original"}, registrations.Subject{Ended: true}, registrations.Missing, false, registrations.Removed, 0,
		},
		"another's, and it has a job": {&registry{7: "original"}, registrations.Subject{HasJob: true}, registrations.None, false, registrations.None, 0},
		"another's, and it has one of its own": {
			&registry{7: "original", 8: "runner"}, registrations.Subject{HasJob: true}, registrations.Registered, false, registrations.Removed, 8,
		},
		// To look for it first would cost every surplus runner another call.
		"of a runner that this process created": {
			&registry{7: "as it asks nobody"}, registrations.Subject{Own: true}, registrations.Missing, false, registrations.Removed, 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.about.Name, test.about.ID = "runner", 7
			if said, err := ask(t, registrations.Questions.LookUp, test.github, test.about); said != test.looked ||
				(err != nil) != test.fails {
				t.Errorf("the question: %v, %v", said, err)
			}
			before := maps.Clone(*test.github)
			if said, err := ask(t, registrations.Questions.Remove, test.github, test.about); said != test.asked ||
				(err != nil) != test.fails {
				t.Errorf("the removal: %v, %v", said, err)
			}
			delete(before, test.removed)
			if diff := cmp.Diff(before, *test.github); diff != "" {
				t.Errorf("removed, or left: %s", diff)
			}
		})
	}
}

// reading is a GitHub whose look-ups are answered by something else than its removals.
type reading struct {
	answering
	byID, byName *actions.RunnerReference
	byNameErr    error
	removed      []int
}

func (r *reading) GetRunner(context.Context, int) (*actions.RunnerReference, error) {
	if r.byID == nil {
		return nil, errRunnerNotFound
	}
	return r.byID, nil
}

func (r *reading) GetRunnerByName(context.Context, string) (*actions.RunnerReference, error) {
	return r.byName, r.byNameErr
}

func (r *reading) RemoveRunner(_ context.Context, id int) error {
	r.removed = append(r.removed, id)
	return r.err
}

// A replica of GitHub may not know a new registration yet, and a gateway answers 404 for what it can't reach. Only that
// GitHub agrees to remove a runner that has not ended says that it has no job.
func TestALookUpIsNoConsent(t *testing.T) {
	original := &actions.RunnerReference{ID: 7, Name: "original"}
	gateway := &actions.Error{Endpoint: actions.EndpointFindRunner, StatusCode: http.StatusNotFound}
	for name, test := range map[string]struct {
		github  *reading
		ended   bool
		want    registrations.Answer
		removed []int
	}{
		"unknown to a replica, busy": {
			&reading{answering: answering{err: actions.ErrJobStillRunning}}, false, registrations.Busy, []int{7},
		},
		"unknown, and it has ended":        {&reading{}, true, registrations.Removed, nil},
		"another's, says a gateway":        {&reading{byID: original, byNameErr: gateway}, false, registrations.PerhapsRemoved, nil},
		"another's, ended, says a gateway": {&reading{byID: original, byNameErr: gateway}, true, registrations.PerhapsRemoved, nil},
		"of that name in another scale set": {
			&reading{byID: original, byName: &actions.RunnerReference{ID: 8, Name: "runner", RunnerScaleSetID: 99}},
			false, registrations.PerhapsRemoved, nil,
		},
		"of that name": {
			&reading{byID: original, byName: &actions.RunnerReference{ID: 8, Name: "runner", RunnerScaleSetID: ourScaleSet}},
			false, registrations.Removed, []int{8},
		},
	} {
		about := registrations.Subject{Name: "runner", Ended: test.ended}
		about.ID = 7
		if said, err := ask(t, registrations.Questions.Remove, test.github, about); said != test.want || err != nil ||
			!slices.Equal(test.github.removed, test.removed) {
			t.Errorf(
				"%s: %v, %v, removed %v; want %v, %v", name, said, err, test.github.removed, test.want, test.removed,
			)
		}
	}
}

// registry is a GitHub that has runners by id.
type registry map[int]string

func (r *registry) RemoveRunner(_ context.Context, id int) error {
	delete(*r, id)
	return nil
}

func (r *registry) GetRunner(_ context.Context, id int) (*actions.RunnerReference, error) {
	if name, known := (*r)[id]; known {
		return &actions.RunnerReference{ID: id, Name: name}, nil
	}
	return nil, errRunnerNotFound
}

func (r *registry) GetRunnerByName(_ context.Context, name string) (*actions.RunnerReference, error) {
	for id, known := range *r {
		if known == name {
			return &actions.RunnerReference{ID: id, Name: name}, nil
		}
	}
	return nil, actions.ErrRunnerNotFound
}

func (r *registry) ListOfflineRunners(context.Context, time.Duration) (*actions.OfflineRunners, error) {
	return nil, errNoAnswer
}

// answering is a GitHub that answers everything with one error.
type answering struct {
	registrations.GitHub
	err error
}

func (a answering) RemoveRunner(context.Context, int) error { return a.err }

func (a answering) GetRunner(context.Context, int) (*actions.RunnerReference, error) {
	return nil, a.err
}

// A failing GitHub is not asked about a thousand runners all the time.
func TestRetryAt(t *testing.T) {
	limited := func(wait time.Duration) error {
		return &actions.RateLimitedError{Until: start.Add(wait), Err: errNoAnswer}
	}
	for name, test := range map[string]struct {
		err      error
		failures int // in a row
		want     time.Duration
	}{
		"no answer":                        {errNoAnswer, 1, 15 * time.Second},
		"no answer twice":                  {errNoAnswer, 2, 30 * time.Second},
		"no answer three times":            {errNoAnswer, 3, time.Minute},
		"no answer for a long time":        {errNoAnswer, 100, time.Minute},
		"to be left alone for an hour":     {limited(time.Hour), 1, time.Hour},
		"to be left alone for a moment":    {limited(time.Second), 1, 15 * time.Second},
		"to be left alone, until long ago": {limited(-time.Hour), 1, 15 * time.Second},
	} {
		answers := registrations.Answers{}
		for range test.failures {
			answers.Remember(pool.Call[registrations.Answer]{Err: test.err}, start)
		}
		if got := answers.RetryAt.Sub(start); got != test.want {
			t.Errorf("%s: asked again after %s, want %s", name, got, test.want)
		}
	}
}
