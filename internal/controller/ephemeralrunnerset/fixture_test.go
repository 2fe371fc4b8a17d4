package ephemeralrunnerset_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/claims"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// start is the creation time of the runners that a test makes by hand.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var setKey = types.NamespacedName{Namespace: "arc-runners", Name: "set"}

// Durations that other rooms decide, for tests that let the time pass.
const (
	// for which a slot is held
	settleGrace, heldTimeout = 3 * time.Second, 15 * time.Minute
	// of evidence
	maxFailedHistoryAge, lostHistoryLimit = time.Hour, 100
	// failures in a row that make a set Degraded
	degradedThreshold = 3
	// of questions to GitHub
	removalLag, askExitedInterval, askAgainInterval, askWorkingInterval = time.Minute, 30 * time.Second, time.Minute,
		10 * time.Minute
	// until a deletion is repeated
	deletionSeenTimeout = 30 * time.Second
	// until a runner that is too many is removed
	surplusPatience = 30 * time.Second
	// until lower figures are believed
	figuresSettleGrace = 10 * time.Second
	// after failed creations
	firstCreateBackoff, longestCreateBackoff = time.Second, time.Minute
	// until the API server is asked about a runner that was created and is not seen
	expectationTimeout = time.Minute
	// between two such questions
	listInterval = 30 * time.Second
	// after questions that GitHub did not answer
	retryQuestionAfter, longestQuestionPause = 15 * time.Second, time.Minute
	// until a job's pod that can't run is told
	jobWaitGrace = 30 * time.Second
	// between two writes of the status, and until one says that a new generation was seen
	reportPeriod, echoPeriod = time.Second, 5 * time.Second
	// until a set looks again at runners that its watch does not show, and at those of others
	unseenPause, besidePause = time.Second, 5 * time.Second
	// until a set whose spec is not that of its AutoscalingRunnerSet is told of
	differsPatience = 10 * time.Second
	// until the Secret with the proxy is written again
	proxyPeriod = time.Minute
	// until a pod is slow to start, and between two looks at the Events about those
	slowStart, mountEventsPeriod = 20 * time.Second, 20 * time.Second
)

// fixture is a controller in a synctest bubble: its clock is the bubble's, its pool runs, its API server and GitHub are
// fakes.
type fixture struct {
	*testing.T
	// what a test is about; the fixture itself has the questions about runners by ID
	registrations.GitHub
	// whom the controller asks, the fixture if it is nil
	github     func(credentials.Reference) registrations.GitHub
	api        client.WithWatch
	cache      *shownCache
	controller *ephemeralrunnerset.Controller
	options    ephemeralrunnerset.Options
	watch      controllertest.RunnerWatch
	recorder   *events.FakeRecorder
	verdicts   *registrations.Verdicts

	mu       sync.Mutex
	requests map[string]int
	// refuse is the error of creations of runners; if made is set the runner is created nevertheless. If refusals is
	// not 0, only that many creations fail.
	refuse   error
	made     bool
	refusals int
	// A creation takes slow.
	slow time.Duration
	// refuseDrop is the error of deleting a Secret.
	refuseDrop error
	// refuseList is the error of listing the runners' metadata.
	refuseList error
	// ownOrigin is set if the AutoscalingRunnerSet is the one that the test created; otherwise it always agrees with
	// the set.
	ownOrigin bool
	// late is set while the watch does not show changes of runners yet.
	late bool
	// remove is GitHub's answer to the removal of a runner, asked counts the questions.
	remove     error
	asked      int
	askedAbout []int // by id
	// missing is GitHub's answer if it knows no runner, lookedUp counts the questions whether it knows one.
	missing  error
	lookedUp int
	// failed counts the runners that have failed because they exited without a job.
	failed int
	// killed is set while a manager dies before each Event that it creates.
	killed bool
	// toldLosses are the names of the Events about lost jobs that a test has seen.
	toldLosses map[string]bool
	// another is the name of the runner that GitHub has under every id, empty if it is that of the runner here.
	another string
}

func inBubble(t *testing.T, test func(f *fixture), objects ...client.Object) {
	t.Helper()
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		f := &fixture{T: t, recorder: events.NewFakeRecorder(100), verdicts: registrations.NewVerdicts(clock.RealClock{}),
			requests: map[string]int{}, toldLosses: map[string]bool{}}
		f.api = controllertest.NewKubernetes().WithObjects(objects...).
			WithStatusSubresource(&v1alpha1.EphemeralRunnerSet{}, &v1alpha1.EphemeralRunner{}).
			WithIndex(&corev1.PersistentVolumeClaim{}, claims.IndexByScaleSet,
				claims.ScaleSetOf).
			WithIndex(&corev1.Event{}, "reason",
				func(object client.Object) []string { return []string{object.(*corev1.Event).Reason} }).
			WithInterceptorFuncs(f.interceptors()).Build()
		f.cache = &shownCache{WithWatch: f.api}
		f.options = ephemeralrunnerset.Options{
			Client: f.cache, Reader: f.api, Pool: workers, Verdicts: f.verdicts, Recorder: f.recorder,
			Clock: clock.RealClock{},
			GitHub: func(_ context.Context, r credentials.Reference) (registrations.GitHub, error) {
				if f.github != nil {
					return f.github(r), nil
				}
				return f, nil
			},
			Proxy: func(context.Context, credentials.Reference) (map[string][]byte, error) {
				return map[string][]byte{"http_proxy": []byte("http://proxy")}, nil
			},
		}
		f.restart()
		test(f)
	})
}

// restart replaces the controller by one that remembers nothing and sees no runner yet.
func (f *fixture) restart() {
	f.controller = ephemeralrunnerset.NewController(f.options)
	f.watch = controllertest.RunnerWatch{Handler: f.controller.RunnerEvents()}
}

// configure does so with other options.
func (f *fixture) configure(change func(*ephemeralrunnerset.Options)) {
	change(&f.options)
	f.restart()
}

func (f *fixture) count(request string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[request]++
}

// refusal returns the error of the next creation.
func (f *fixture) refusal() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusals > 0 {
		if f.refusals--; f.refusals == 0 {
			defer func() { f.refuse = nil }()
		}
	}
	return f.refuse
}

// errRunnerNotFound is GitHub's own answer that there is no such runner.
var errRunnerNotFound = &actions.Error{StatusCode: http.StatusNotFound,
	TypeName: "GitHub.Runners.AgentNotFoundException"}

func (f *fixture) RemoveRunner(_ context.Context, id int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	f.askedAbout = append(f.askedAbout, id)
	return f.remove
}

func (f *fixture) GetRunner(_ context.Context, id int) (*actions.RunnerReference, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookedUp++
	if f.missing != nil {
		return nil, f.missing
	}
	found := &actions.RunnerReference{ID: id, Name: f.another}
	for _, r := range f.runners() {
		if f.another == "" && r.Status.RunnerID == id {
			found.Name = r.Name
		}
	}
	return found, nil
}

func (f *fixture) GetRunnerByName(context.Context, string) (*actions.RunnerReference, error) {
	return nil, actions.ErrRunnerNotFound // it is only asked for a copy
}

func runnerKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: setKey.Namespace, Name: name}
}

// newSet returns a set that wants the given number of runners.
func newSet(replicas int, change ...func(*v1alpha1.EphemeralRunnerSet)) *v1alpha1.EphemeralRunnerSet {
	set := &v1alpha1.EphemeralRunnerSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: setKey.Namespace, Name: setKey.Name, UID: "set-uid", Generation: 1,
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setKey.Namespace},
		},
		Spec: v1alpha1.EphemeralRunnerSetSpec{Replicas: replicas, AssignedJobs: replicas, PatchID: 1},
	}
	for _, c := range change {
		c(set)
	}
	controllertest.Origin(set)
	return set
}

func (f *fixture) pass() (ctrl.Result, error) {
	f.Helper()
	if !f.late {
		f.watch.Show(f.Context(), f.runners())
	}
	result, err := f.controller.Reconcile(f.Context(), ctrl.Request{NamespacedName: setKey})
	synctest.Wait()
	f.markFailed()
	return result, err
}

func (f *fixture) reconcile() ctrl.Result {
	f.Helper()
	result, err := f.pass()
	if err != nil {
		f.Fatalf("Reconcile() = %v", err)
	}
	return result
}

// runners returns the runners that the API server has, whether or not the watch has shown them.
func (f *fixture) runners() []v1alpha1.EphemeralRunner {
	f.Helper()
	var list v1alpha1.EphemeralRunnerList
	if err := f.api.List(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	return list.Items
}

func (f *fixture) wantRunners(want int) {
	f.Helper()
	if got := len(f.runners()); got != want {
		f.Errorf("%d runners, want %d", got, want)
	}
}

// bringUp registers and starts all runners.
func (f *fixture) bringUp() {
	f.Helper()
	for i, r := range f.runners() {
		r.Status.Phase, r.Status.RunnerID, r.Status.Ready = v1alpha1.EphemeralRunnerPhaseRunning, 7+i, true
		if err := f.api.Status().Update(f.Context(), &r); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) set() *v1alpha1.EphemeralRunnerSet {
	f.Helper()
	set := &v1alpha1.EphemeralRunnerSet{}
	if err := f.api.Get(f.Context(), setKey, set); err != nil {
		f.Fatal(err)
	}
	return set
}

// markFailed plays the runners' own controller: it sets the phase of those that exited without a job. It counts them in
// failed.
func (f *fixture) markFailed() {
	f.Helper()
	for _, r := range f.runners() {
		verdict := f.verdicts.Of(registrations.Registration{Runner: r.UID})
		if verdict == registrations.None || r.Status.Phase != v1alpha1.EphemeralRunnerPhaseSucceeded {
			continue
		}
		r.Status.Phase, r.Status.Reason = v1alpha1.EphemeralRunnerPhaseFailed, v1alpha1.ReasonRunnerExitedWithoutJob
		r.Status.Message = map[registrations.Answer]string{registrations.NoJob: "it got no job",
			registrations.NoKnownJob: "it has no command"}[verdict]
		if err := f.api.Status().Update(f.Context(), &r); err != nil {
			f.Fatal(err)
		}
		f.failed++
	}
}

// deregistered reports whether the runner's own controller has been told that GitHub has removed its registration.
func (f *fixture) deregistered(runner types.UID, id int) bool {
	return f.verdicts.Of(registrations.Registration{Runner: runner, ID: id}) == registrations.Removed
}

// publish makes the listener write a figure.
func (f *fixture) publish(replicas int) {
	f.Helper()
	set := f.set()
	set.Spec.Replicas, set.Spec.AssignedJobs = replicas, replicas
	set.Spec.PatchID++
	if err := f.api.Update(f.Context(), set); err != nil {
		f.Fatal(err)
	}
}

// event reports whether an Event with the reason was recorded.
func (f *fixture) event(reason string) bool {
	return controllertest.CountEvents(f.recorder, reason) > 0
}

// makeSurplus brings the set's runners up and makes them surplus for long enough to be removed.
func (f *fixture) makeSurplus() {
	f.Helper()
	f.reconcile()
	f.bringUp()
	f.publish(0)
	f.reconcile()
	controllertest.Elapse(surplusPatience)
	f.publish(0)
}
