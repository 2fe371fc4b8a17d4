package ephemeralrunner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// story is the life of one runner with all that may befall it: its controller as it is, an API server whose cache is late,
// a kubelet that tells late, a GitHub that fails, a listener whose reports get lost. Everything follows from the seed.
type story struct {
	client.Client // what is not written down in apiserver_test.go nobody may ask for
	*testing.T
	seed       uint64
	random     *rand.Rand
	silences   *rand.Rand // GitHub's: it is asked beside the pass, and with one source for both nobody knows who draws first
	controller *Controller
	workers    *pool.Pool
	calm       bool // nothing goes wrong any more

	mu      sync.Mutex
	version int
	runner  *v1alpha1.EphemeralRunner
	pod     *corev1.Pod
	secret  *corev1.Secret

	seenRunner *v1alpha1.EphemeralRunner
	seenPod    *corev1.Pod

	node
	used map[string]bool // JIT configs that a container has started with

	registration int  // on GitHub, 0 where there is none
	busy         bool // GitHub's word
	late         int  // the report of a job's end is: 1, and 2 when the manager has been replaced since; 0 where none is
	registered   int  // how often
	failed       int  // calls to GitHub in a row
}

// node is what a kubelet knows of the pod's runner container.
type node struct {
	lost     bool
	running  bool
	ended    bool
	code     int32
	reported bool // what is true now
}

func newStory(t *testing.T, workers *pool.Pool, seed uint64) *story {
	s := &story{
		T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 5)), silences: rand.New(rand.NewPCG(seed, 6)),
		workers: workers, used: map[string]bool{}, runner: newRunner(),
	}
	s.write(s.runner)
	s.restart()
	return s
}

// wrong ends the story with what must not happen.
func (s *story) wrong(what string, values ...any) {
	s.Helper()
	s.Errorf("seed %d: "+what, append([]any{s.seed}, values...)...)
}

func (s *story) chance(n int) bool { return s.random.IntN(n) == 0 }

// fault says that something goes wrong now, once in n times.
func (s *story) fault(n int) bool { return !s.calm && s.chance(n) }

// restart replaces the manager: memory is lost, and the cache is complete, but for pods that it has still to hear of.
func (s *story) restart() {
	if s.late > 0 {
		s.late = (s.late + 1) % 3 // a report that is late by two managers is taken for that of the pod that the second one finds
	}
	s.controller = NewController(Options{
		Client: s, Pool: s.workers, Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{}, Reader: uncached{s}, NoJobMetadata: true,
		GitHub: func(context.Context, credentials.Reference) (GitHub, error) { return s, nil },
	})
	s.show(true, s.chance(2))
}

// uncached reads the pod as it is.
type uncached struct{ *story }

func (l uncached) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pod == nil {
		return notFound()
	}
	l.pod.DeepCopyInto(object.(*corev1.Pod))
	return nil
}

func (s *story) show(runner, pod bool) {
	if runner {
		s.seenRunner = s.runner.DeepCopy()
	}
	if pod {
		s.seenPod = s.pod.DeepCopy()
	}
}

// silent makes a call to GitHub fail now and then, but never for minutes.
func (s *story) silent() bool {
	if s.failed < 3 && !s.calm && s.silences.IntN(4) == 0 {
		s.failed++
		return true
	}
	s.failed = 0
	return false
}

func (s *story) GenerateJITConfig(context.Context, int, actions.JITConfigRequest) (*actions.JITConfig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent() {
		return nil, errGitHubAway
	}
	if s.registration != 0 {
		return nil, actions.ErrRunnerExists
	}
	s.registered++
	s.registration = s.registered
	if s.silent() {
		return nil, errGitHubAway // though it was done
	}
	reference := actions.RunnerReference{ID: s.registration, Name: name, RunnerScaleSetID: scaleSet}
	return &actions.JITConfig{Runner: reference, EncodedJITConfig: fmt.Sprint(s.registration)}, nil
}

func (s *story) GetRunnerByName(context.Context, string) (*actions.RunnerReference, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent() {
		return nil, errGitHubAway
	}
	if s.registration == 0 {
		return nil, actions.ErrRunnerNotFound
	}
	return &actions.RunnerReference{ID: s.registration, Name: name, RunnerScaleSetID: scaleSet}, nil
}

func (s *story) RemoveRunner(_ context.Context, id int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.silent():
		return errGitHubAway
	case id != s.registration:
		return nil
	case s.busy:
		return actions.ErrJobStillRunning
	}
	s.registration = 0
	return nil
}

// pass is one reconcile, and what it has asked for.
func (s *story) pass() {
	_, _ = s.controller.Reconcile(s.Context(), reconcile.Request{NamespacedName: runnerKey}) // what fails is tried again
	synctest.Wait()
}

func (s *story) later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
