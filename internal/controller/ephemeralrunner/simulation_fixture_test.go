package ephemeralrunner_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// simulation is the life of one runner with everything that may happen to it: its real controller, an API server whose
// cache is late, a kubelet that reports late, a GitHub that fails, a listener whose reports get lost. Everything
// follows from the seed.
type simulation struct {
	client.Client // nil: only the methods that simulation_apiserver_test.go overrides may be called
	*testing.T
	seed   uint64
	random *rand.Rand
	// GitHub's: its calls run next to the pass, and a shared source would make the order of draws vary
	silences   *rand.Rand
	controller *ephemeralrunner.Controller
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

	runnerID   int  // on GitHub, 0 if there is none
	busy       bool // by GitHub's answers
	late       int  // 1 while the report of a job's end is late, 2 when the manager has been replaced since, else 0
	registered int  // number of registrations that there have been
	failed     int  // calls to GitHub in a row

	started    *controllertest.Started
	verdicts   *registrations.Verdicts
	setRemoved bool // the set has had GitHub remove the registration
}

// node is what a kubelet knows of the pod's runner container.
type node struct {
	lost     bool
	running  bool
	ended    bool
	code     int32
	reported bool // the pod's status says all of this
	kept     bool // somebody's finalizer keeps the pod
	gone     bool // nothing but that keeps it
}

func newSimulation(t *testing.T, workers *pool.Pool, seed uint64) *simulation {
	s := &simulation{
		T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 5)), silences: rand.New(rand.NewPCG(seed, 6)),
		workers: workers, used: map[string]bool{}, runner: newRunner(),
	}
	s.write(s.runner)
	s.restart()
	return s
}

// wrong reports what must not happen, with the seed.
func (s *simulation) wrong(what string, values ...any) {
	s.Helper()
	s.Errorf("seed %d: "+what, append([]any{s.seed}, values...)...)
}

func (s *simulation) chance(n int) bool { return s.random.IntN(n) == 0 }

// fault reports whether something goes wrong now, which happens in one of n cases.
func (s *simulation) fault(n int) bool { return !s.calm && s.chance(n) }

// restart replaces the manager: its memory is lost, and its cache is complete, except perhaps for pods.
func (s *simulation) restart() {
	if s.late > 0 {
		// a report that is late by two managers would be attributed to the pod that the second one finds
		s.late = (s.late + 1) % 3
	}
	if s.started != nil {
		s.started.Stop()
		s.started = nil
	}
	s.verdicts, s.setRemoved = registrations.NewVerdicts(clock.RealClock{}), false
	s.controller = ephemeralrunner.NewController(ephemeralrunner.Options{
		Client: s, Pool: s.workers, Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{}, Reader: uncached{s},
		Verdicts:    s.verdicts,
		JobMetadata: true, JobProtection: true,
		GitHub: func(context.Context, credentials.Reference) (ephemeralrunner.GitHub, error) { return s, nil },
	})
	s.show(true, s.chance(2))
	s.started = controllertest.Start(s.T, s.controller, scheme)
	s.started.Added(shown())
}

// uncached reads the pod as it is.
type uncached struct{ *simulation }

func (l uncached) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pod == nil {
		return notFound()
	}
	l.pod.DeepCopyInto(object.(*corev1.Pod))
	return nil
}

// show makes the watches show the runner, the pod, or both, as they are.
func (s *simulation) show(runner, pod bool) {
	news := false
	if runner {
		news = versionOf(s.seenRunner) != versionOf(s.runner)
		s.seenRunner = s.runner.DeepCopy()
	}
	if pod {
		news = news || versionOf(s.seenPod) != versionOf(s.pod)
		s.seenPod = s.pod.DeepCopy()
	}
	if news && s.started != nil {
		s.started.Updated(shown(), shown())
	}
}

// silent makes a call to GitHub fail sometimes, but never for minutes.
func (s *simulation) silent() bool {
	if s.failed < 3 && !s.calm && s.silences.IntN(4) == 0 {
		s.failed++
		return true
	}
	s.failed = 0
	return false
}

func (s *simulation) GenerateJITConfig(context.Context, int, actions.JITConfigRequest) (*actions.JITConfig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent() {
		return nil, errGitHubAway
	}
	if s.runnerID != 0 {
		return nil, actions.ErrRunnerExists
	}
	s.registered++
	s.runnerID = s.registered
	if s.silent() {
		return nil, errGitHubAway // although it was done
	}
	reference := actions.RunnerReference{ID: s.runnerID, Name: name, RunnerScaleSetID: scaleSet}
	return &actions.JITConfig{Runner: reference, EncodedJITConfig: fmt.Sprint(s.runnerID)}, nil
}

func (s *simulation) GetRunnerByName(context.Context, string) (*actions.RunnerReference, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent() {
		return nil, errGitHubAway
	}
	if s.runnerID == 0 {
		return nil, actions.ErrRunnerNotFound
	}
	return &actions.RunnerReference{ID: s.runnerID, Name: name, RunnerScaleSetID: scaleSet}, nil
}

func (s *simulation) RemoveRunner(_ context.Context, id int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.silent():
		return errGitHubAway
	case id != s.runnerID:
		return nil
	case s.busy:
		return actions.ErrJobStillRunning
	}
	s.runnerID = 0
	return nil
}
