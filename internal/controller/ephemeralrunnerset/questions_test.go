package ephemeralrunnerset

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// Log lines about a call to GitHub carry the name of the scale set, as users know it, and not that of the set that belongs to
// it.
func TestQuestionsAreLoggedByScaleSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})))
		defer cancel()
		workers := pool.New(1, clock.RealClock{})
		go func() { _ = workers.Start(ctx) }()
		q := newQuestions(githubOptions{Pool: workers, Clock: clock.RealClock{}, GitHub: func(ctx context.Context, _ credentials.Reference) (GitHub, error) {
			log.FromContext(ctx).Info("asked")
			return nil, context.Canceled
		}, Wake: func(types.NamespacedName) {}})
		q.remove(&v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux-x7k2p", Labels: map[string]string{
			v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "runners",
		}}}, subject{name: "linux-x7k2p-runner-abcde"})
		synctest.Wait()
		if all := strings.Join(logged, "\n"); !strings.Contains(all, `"scaleSet"="runners/linux" "runner"="linux-x7k2p-runner-abcde"`) {
			t.Errorf("logged %s", all)
		}
	})
}

// A gateway that can't reach GitHub answers 404 as well, without the name of GitHub's exception. That must not cost a runner
// with a job.
func TestNotFoundForARunnerWithAJobMustBeGitHubs(t *testing.T) {
	unnamed := &actions.Error{Endpoint: actions.EndpointRemoveRunner, StatusCode: http.StatusNotFound}
	for name, test := range map[string]struct {
		err             error
		protected       bool
		removed, looked answer
		fails           bool
	}{
		"GitHub's, idle":          {errRunnerNotFound, false, answerRemoved, answerMissing, false},
		"GitHub's, with a job":    {errRunnerNotFound, true, answerRemoved, answerMissing, false},
		"without a name, idle":    {unnamed, false, answerPerhapsRemoved, answerPerhapsMissing, false},
		"without a name, working": {unnamed, true, answerNone, answerNone, true},
	} {
		github, about := answering{err: test.err}, subject{hasJob: test.protected}
		if removed, err := deregisterRunner(t.Context(), github, about); removed != test.removed || (err != nil) != test.fails {
			t.Errorf("%s: the removal is %v, %v", name, removed, err)
		}
		if looked, err := lookUpRunner(t.Context(), github, about); looked != test.looked || (err != nil) != test.fails {
			t.Errorf("%s: the question is %v, %v", name, looked, err)
		}
	}
}

func TestAnIDUnderWhichGitHubHasAnotherRunnerIsNotTheRunners(t *testing.T) {
	github := naming{name: "original"}
	if said, err := lookUpRunner(t.Context(), github, subject{name: "copy", hasJob: true}); said != answerMissing || err != nil {
		t.Errorf("a copy: %v, %v", said, err)
	}
	if said, err := lookUpRunner(t.Context(), github, subject{name: "Original", hasJob: true}); said != answerRegistered || err != nil {
		t.Errorf("the runner itself, whose name GitHub has in small letters: %v, %v", said, err)
	}
}

// answering is a GitHub that answers everything with one error.
type answering struct {
	GitHub
	err error
}

func (a answering) RemoveRunner(context.Context, int) error { return a.err }

func (a answering) GetRunner(context.Context, int) (*actions.RunnerReference, error) {
	return nil, a.err
}

// naming is a GitHub that has a runner of one name under every id.
type naming struct {
	GitHub
	name string
}

func (n naming) GetRunner(_ context.Context, id int) (*actions.RunnerReference, error) {
	return &actions.RunnerReference{ID: id, Name: n.name}, nil
}
