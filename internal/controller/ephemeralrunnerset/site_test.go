package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/removals"
)

var setKey = types.NamespacedName{Namespace: "arc-runners", Name: "set"}

// site is a controller in a bubble: its clock is synctest's, its pool runs, its API server and GitHub are fakes.
type site struct {
	*testing.T
	api        client.WithWatch
	controller *Controller
	watch      controllertest.RunnerWatch
	recorder   *events.FakeRecorder
	removed    *removals.Memory

	mu       sync.Mutex
	requests map[string]int
	// refuse is what creations of runners fail with; with made the runner is there all the same. Where refusals is set
	// only so many of them fail.
	refuse   error
	made     bool
	refusals int
	// late: the watch does not show what has changed of runners yet.
	late bool
	// remove is what GitHub answers to the removal of a runner, asked how often it was asked.
	remove error
	asked  int
}

func inBubble(t *testing.T, test func(s *site), objects ...client.Object) {
	t.Helper()
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		s := &site{T: t, recorder: events.NewFakeRecorder(100), removed: removals.New(clock.RealClock{}), requests: map[string]int{}}
		s.api = fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(objects...).
			WithStatusSubresource(&v1alpha1.EphemeralRunnerSet{}, &v1alpha1.EphemeralRunner{}).
			WithInterceptorFuncs(s.interceptors()).Build()
		s.controller = NewController(Options{
			Client: s.api, Pool: workers, Removed: s.removed, Recorder: s.recorder, Clock: clock.RealClock{},
			GitHub: func(context.Context, credentials.Reference) (GitHub, error) { return s, nil },
			Proxy: func(context.Context, credentials.Reference) (map[string][]byte, error) {
				return map[string][]byte{"http_proxy": []byte("http://proxy")}, nil
			},
		})
		s.watch.Handler = s.controller.RunnerEvents()
		test(s)
	})
}

func (s *site) count(request string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[request]++
}

// refusal is what the next creation fails with.
func (s *site) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals > 0 {
		if s.refusals--; s.refusals == 0 {
			defer func() { s.refuse = nil }()
		}
	}
	return s.refuse
}

// interceptors count requests, play what goes wrong, and give runners what a real API server gives.
func (s *site) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			s.count("create")
			object.SetUID(uuid.NewUUID())
			object.SetCreationTimestamp(metav1.Now())
			refuse := s.refusal()
			if refuse != nil && !s.made {
				return refuse
			}
			return errors.Join(c.Create(ctx, object, options...), refuse)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			s.count("delete")
			return c.Delete(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, resource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			s.count(fmt.Sprintf("patch %s %T", resource, object))
			return c.SubResource(resource).Patch(ctx, object, patch, options...)
		},
	}
}

func (s *site) RemoveRunner(context.Context, int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.remove
}

func (s *site) GetRunner(_ context.Context, id int) (*actions.RunnerReference, error) {
	return &actions.RunnerReference{ID: id}, nil
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
	return set
}

func (s *site) pass() (ctrl.Result, error) {
	s.Helper()
	if !s.late {
		s.watch.Show(s.Context(), s.runners())
	}
	result, err := s.controller.Reconcile(s.Context(), ctrl.Request{NamespacedName: setKey})
	synctest.Wait()
	return result, err
}

func (s *site) reconcile() ctrl.Result {
	s.Helper()
	result, err := s.pass()
	if err != nil {
		s.Fatalf("Reconcile() = %v", err)
	}
	return result
}

// runners returns what the API server has, seen or not.
func (s *site) runners() []v1alpha1.EphemeralRunner {
	s.Helper()
	var list v1alpha1.EphemeralRunnerList
	if err := s.api.List(s.Context(), &list); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

func (s *site) wantRunners(want int) {
	s.Helper()
	if got := len(s.runners()); got != want {
		s.Errorf("%d runners, want %d", got, want)
	}
}

// bringUp lets all runners run.
func (s *site) bringUp() {
	s.Helper()
	for _, r := range s.runners() {
		r.Status.Phase, r.Status.RunnerID, r.Status.Ready = v1alpha1.EphemeralRunnerPhaseRunning, 7, true
		if err := s.api.Status().Update(s.Context(), &r); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *site) set() *v1alpha1.EphemeralRunnerSet {
	s.Helper()
	set := &v1alpha1.EphemeralRunnerSet{}
	if err := s.api.Get(s.Context(), setKey, set); err != nil {
		s.Fatal(err)
	}
	return set
}

// publish lets the listener write a figure.
func (s *site) publish(replicas int) {
	s.Helper()
	set := s.set()
	set.Spec.Replicas, set.Spec.AssignedJobs = replicas, replicas
	set.Spec.PatchID++
	if err := s.api.Update(s.Context(), set); err != nil {
		s.Fatal(err)
	}
}

// event says whether an Event with the reason was recorded.
func (s *site) event(reason string) bool { return controllertest.CountTold(s.recorder, reason) > 0 }

// makeSurplus brings the set's runners up, then wants none of them for as long as it takes to act on that.
func (s *site) makeSurplus() {
	s.Helper()
	s.reconcile()
	s.bringUp()
	s.publish(0)
	s.reconcile()
	controllertest.Elapse(surplusPatience)
	s.publish(0)
}
