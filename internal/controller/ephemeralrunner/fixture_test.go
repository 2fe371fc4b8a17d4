package ephemeralrunner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

const (
	namespace = "arc-runners"
	name      = "set-runner-abcde"
	scaleSet  = 5
)

var (
	runnerKey = client.ObjectKey{Namespace: namespace, Name: name}
	scheme    = kinds.Scheme()
)

// fixture is a controller in a bubble: its clock is synctest's, its pool runs, its API server and GitHub are fakes.
type fixture struct {
	*testing.T
	api        *recordingAPI
	github     *fakeGitHub
	recorder   *events.FakeRecorder
	controller *ephemeralrunner.Controller
	options    ephemeralrunner.Options
	workers    *pool.Pool
	verdicts   *registrations.Verdicts
	// What is behind these may be replaced while the controller has them.
	cache   *shownClient
	live    *shownReader
	clock   *shownClock
	wasGone bool // as the test has seen
	admit   func(*v1alpha1.EphemeralRunnerSet, types.NamespacedName) bool
}

type (
	shownClient struct{ client.Client }
	shownReader struct{ client.Reader }
	shownClock  struct{ clock.PassiveClock }
)

// Get is the first request of a pass if it asks for a runner.
func (c *shownClient) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if _, begins := object.(*v1alpha1.EphemeralRunner); begins {
		controllertest.AwaitTurn(ctx, key)
	}
	return c.Client.Get(ctx, key, object, options...)
}

// inBubble runs a test with a fixture whose controller gets the objects after it has taken over.
func inBubble(t *testing.T, test func(f *fixture), objects ...client.Object) {
	t.Helper()
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		f := &fixture{T: t, github: newFakeGitHub(), recorder: events.NewFakeRecorder(100), workers: workers,
			verdicts: registrations.NewVerdicts(clock.RealClock{})}
		f.api = &recordingAPI{WithWatch: controllertest.NewKubernetes().Build()}
		f.restart()
		controllertest.Reconcile(f, f.controller, client.ObjectKey{Namespace: namespace, Name: "nobody"})
		f.api.sent()
		f.api.WithWatch = controllertest.NewKubernetes().
			WithStatusSubresource(&v1alpha1.EphemeralRunner{}, &corev1.Pod{}).WithObjects(objects...).Build()
		for _, owner := range []client.Object{newSet(), controllertest.Origin(newSet())} {
			_ = f.api.WithWatch.Create(t.Context(), owner) // unless the test has its own
		}
		test(f)
		if f.wasGone {
			f.wantForgotten()
		}
	})
}

// restart replaces the controller by one that remembers nothing.
func (f *fixture) restart() {
	f.cache, f.live, f.clock = &shownClient{f.api}, &shownReader{f.api}, &shownClock{clock.RealClock{}}
	f.admit = func(*v1alpha1.EphemeralRunnerSet, types.NamespacedName) bool { return true }
	f.options = ephemeralrunner.Options{
		Client: f.cache, Reader: f.live, Pool: f.workers, Verdicts: f.verdicts, Recorder: f.recorder, Clock: f.clock,
		Version:     "1.2.3",
		JobMetadata: true, JobProtection: true,
		GitHub: func(context.Context, credentials.Reference) (ephemeralrunner.GitHub, error) {
			return f.github, f.github.unresolved
		},
		Gate: gate{f},
	}
	f.controller = ephemeralrunner.NewController(f.options)
}

// gate admits whom the test admits, and keeps no claims from anybody.
type gate struct{ *fixture }

func (g gate) Admit(
	_ *v1alpha1.AutoscalingRunnerSet, set *v1alpha1.EphemeralRunnerSet, runner types.NamespacedName,
) bool {
	return g.admit(set, runner)
}

func (gate) Hold(*v1alpha1.EphemeralRunner) bool { return true }

// start has a manager start the controller.
func (f *fixture) start() *controllertest.Started {
	return controllertest.Start(f, f.controller, scheme)
}

// configure replaces the controller by one with other options.
func (f *fixture) configure(change func(*ephemeralrunner.Options)) {
	options := f.options
	change(&options)
	f.controller = ephemeralrunner.NewController(options)
}

// newRunner returns a runner as its set creates it.
func newRunner(change ...func(*v1alpha1.EphemeralRunner)) *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "runner-uid", Generation: 1,
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: namespace,
				"team": "build"},
			Finalizers: []string{v1alpha1.FinalizerEphemeralRunner}, OwnerReferences: kube.OwnedBy(newSet()),
		},
		Spec: v1alpha1.EphemeralRunnerSpec{
			GitHubConfigUrl: "https://github.com/my-org", GitHubConfigSecret: "github", RunnerScaleSetID: scaleSet,
			PodSpec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: v1alpha1.RunnerContainerName, Image: "runner:1"}}},
		},
	}
	for _, c := range change {
		c(runner)
	}
	return runner
}

// newSet returns the runner's set.
func newSet() *v1alpha1.EphemeralRunnerSet {
	set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "set", UID: "set-uid",
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: namespace},
	}}
	controllertest.Origin(set)
	return set
}

func hasReportedJob(r *v1alpha1.EphemeralRunner) { r.Status.JobID = "job" }

// reconcile runs one pass and waits until the calls that it started are done.
func (f *fixture) reconcile() reconcile.Result {
	f.Helper()
	result := controllertest.Reconcile(f, f.controller, runnerKey)
	synctest.Wait()
	return result
}

// wantForgotten fails if anything is remembered of the runner, which is gone: one that is the same to the last letter
// has to get a registration and a pod, as if it were the first.
func (f *fixture) wantForgotten() {
	f.Helper()
	g := newFakeGitHub()
	f.github, f.api.refuse, f.cache.Client, f.live.Reader = g, nil, f.api, f.api
	f.create(newRunner())
	f.settle()
	if calls := g.said(); !slices.Equal(calls, []string{"jit"}) || f.pod() == nil {
		f.Errorf("the runner is remembered though it is gone: GitHub was asked %v for its namesake, which has a pod: %t",
			calls, f.pod() != nil)
	}
}

// settle runs passes without letting time pass.
func (f *fixture) settle() {
	f.Helper()
	for range 5 {
		f.reconcile()
	}
}

func (f *fixture) elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// runner returns the runner, nil if it is gone.
func (f *fixture) runner() *v1alpha1.EphemeralRunner {
	f.Helper()
	return found(f, &v1alpha1.EphemeralRunner{})
}

func (f *fixture) pod() *corev1.Pod {
	f.Helper()
	return found(f, &corev1.Pod{})
}

func (f *fixture) secret() *corev1.Secret {
	f.Helper()
	return found(f, &corev1.Secret{})
}

func found[T client.Object](f *fixture, object T) T {
	f.Helper()
	var none T
	if !controllertest.Read(f, f.api.WithWatch, runnerKey, object) {
		return none
	}
	return object
}

// setPod writes the pod's status, as the kubelet would.
func (f *fixture) setPod(change func(*corev1.Pod)) {
	f.Helper()
	pod := f.pod()
	change(pod)
	if err := f.api.WithWatch.Status().Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// setStatus writes the runner's status, as the listener or a test would.
func (f *fixture) setStatus(change func(*v1alpha1.EphemeralRunner)) {
	f.Helper()
	runner := f.runner()
	change(runner)
	if err := f.api.WithWatch.Status().Update(f.Context(), runner); err != nil {
		f.Fatal(err)
	}
}

// delete deletes the runner, as its set would.
func (f *fixture) delete() {
	f.Helper()
	if err := f.api.WithWatch.Delete(f.Context(), f.runner()); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) wantCalls(want ...string) {
	f.Helper()
	if got := f.github.said(); !slices.Equal(got, want) {
		f.Errorf("GitHub was asked %v, want %v", got, want)
	}
}

// wantEvent fails unless exactly one Event has the reason.
func (f *fixture) wantEvent(reason string) {
	f.Helper()
	if count := controllertest.CountEvents(f.recorder, reason); count != 1 {
		f.Errorf("%d Events %s, want 1", count, reason)
	}
}

// recordingAPI records the requests that a real API server would get, and refuses those that it is set up to refuse.
type recordingAPI struct {
	client.WithWatch
	mu       sync.Mutex
	requests []string
	refuse   map[string]error
	// unanswered is the error of writes of the status that take effect.
	unanswered error
	grace      *int64 // of the last deletion of a pod
	// Each patch takes latency.
	latency time.Duration
	// propagation says what is to happen to the objects that the Job deleted last owns.
	propagation *metav1.DeletionPropagation
}

func (a *recordingAPI) note(verb string, object any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1."), "*v1alpha1.")
	if partial, ok := object.(runtime.Object); ok && strings.HasPrefix(kind, "PartialObjectMetadata") {
		kind = partial.GetObjectKind().GroupVersionKind().Kind
	}
	request := verb + " " + kind
	a.requests = append(a.requests, request)
	return a.refuse[request]
}
