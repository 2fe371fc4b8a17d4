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
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
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
		q := newQuestions(Options{Pool: workers, Clock: clock.RealClock{}, GitHub: func(ctx context.Context, _ credentials.Reference) (GitHub, error) {
			log.FromContext(ctx).Info("asked")
			return nil, context.Canceled
		}}, func(types.NamespacedName) {})
		asked := &plan{}
		asked.decide(&runnerView{name: "linux-x7k2p-runner-abcde", uid: "1"}, actionDeregister)
		q.ask(&v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Name: "linux-x7k2p", Labels: map[string]string{
			v1alpha1.LabelScaleSetName: "linux", v1alpha1.LabelScaleSetNamespace: "runners",
		}}}, newHistory(creations{}), asked)
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
		github, registered := answering{err: test.err}, &runnerView{registrationID: 1}
		if removed, err := deregisterRunner(t.Context(), github, registered, test.protected); removed != test.removed || (err != nil) != test.fails {
			t.Errorf("%s: the removal is %v, %v", name, removed, err)
		}
		if looked, err := lookUpRunner(t.Context(), github, registered, test.protected); looked != test.looked || (err != nil) != test.fails {
			t.Errorf("%s: the question is %v, %v", name, looked, err)
		}
	}
}

func TestWorkingRunnerOutlivesAGatewaysNotFound(t *testing.T) {
	for name, test := range map[string]struct {
		missing error
		deleted int
	}{
		"the gateway's": {&actions.Error{Endpoint: actions.EndpointGetRunner, StatusCode: http.StatusNotFound}, 0},
		"GitHub's":      {errRunnerNotFound, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.missing = test.missing
				f.reconcile()
				f.changeStatus(func(status *v1alpha1.EphemeralRunnerStatus) {
					status.Phase, status.RunnerID, status.JobID = v1alpha1.EphemeralRunnerPhaseRunning, 7, "1"
				})
				f.reconcile()
				for range 3 {
					controllertest.Elapse(askWorkingPeriod)
					f.reconcile()
					f.reconcile()
				}
				if f.lookedUp == 0 || f.requests["delete"] != test.deleted {
					t.Errorf("GitHub was asked %d times, %d runners deleted; want %d deleted", f.lookedUp, f.requests["delete"], test.deleted)
				}
			}, newSet(1))
		})
	}
}

// A backup tool restores a runner's status, and people copy runners with it: the id in it is another runner's.
func TestACopiedStatusTakesNoRegistrationAway(t *testing.T) {
	for name, named := range map[string]string{"as it was": "original", "with its own name": ""} {
		for _, phase := range []v1alpha1.EphemeralRunnerPhase{v1alpha1.EphemeralRunnerPhaseFailed, v1alpha1.EphemeralRunnerPhaseSucceeded} {
			t.Run(name+", "+string(phase), func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.another = "original"
					f.reconcile()
					f.changeStatus(func(status *v1alpha1.EphemeralRunnerStatus) {
						status.Phase, status.RunnerID, status.RunnerName, status.JobID = phase, 7, named, "1"
					})
					for range 3 {
						f.reconcile()
						controllertest.Elapse(askAgainAfter)
						f.reconcile()
					}
					if f.asked > 0 {
						t.Errorf("GitHub was asked %d times to remove another runner", f.asked)
					}
				}, newSet(1))
			})
		}
	}
}

func TestAnIDUnderWhichGitHubHasAnotherRunnerIsNotTheRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.another = "original"
		if said, err := lookUpRunner(t.Context(), f, &runnerView{name: "copy", registrationID: 7}, true); said != answerMissing || err != nil {
			t.Errorf("a copy: %v, %v", said, err)
		}
		if said, err := lookUpRunner(t.Context(), f, &runnerView{name: "Original", registrationID: 7}, true); said != answerRegistered || err != nil {
			t.Errorf("the runner itself, whose name GitHub has in small letters: %v, %v", said, err)
		}
	})
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
