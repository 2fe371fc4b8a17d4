package alone

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// fixture is a namespace with the manager's pod, and others.
type fixture struct {
	*testing.T
	client client.WithWatch
	*Deployment
	// lists counts the looks, and refused, if set, answers them.
	lists   atomic.Int32
	refused atomic.Pointer[error]
	log     strings.Builder
	free    chan struct{}
}

const namespace = "arc-systems"

// made returns a pod as Kubernetes makes it for the manager's Deployment, which has started.
func made(hash, name string, arguments ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"pod-template-hash": hash},
		Finalizers: []string{"test/kubelet"}, // the fake API server deletes no pod with grace
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "arc-" + hash, Controller: new(true),
		}},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "manager", Args: arguments}}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// server is the fake API server, whose watches have no bookmarks.
type server struct{ client.WithWatch }

func (server) IsWatchListSemanticsUnSupported() bool { return true }

// prepare finds the manager's Deployment among the pods.
func prepare(t *testing.T, pods ...client.Object) *fixture {
	t.Helper()
	f := &fixture{T: t, free: make(chan struct{})}
	f.client = server{fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithRESTMapper(kinds.Mapper()).
		WithObjects(append(pods, made("new", "own", "--program=harrier"))...).
		WithInterceptorFuncs(interceptor.Funcs{List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			f.lists.Add(1)
			if refused := f.refused.Load(); refused != nil {
				return *refused
			}
			return c.List(ctx, list, options...)
		}}).Build()}
	logger := funcr.New(func(_, line string) { f.log.WriteString(line + "\n") }, funcr.Options{})
	own := types.NamespacedName{Namespace: namespace, Name: "own"}
	found, err := Find(t.Context(), f.client, own, clock.RealClock{}, logger)
	if err != nil {
		t.Fatal(err)
	}
	f.Deployment = found
	return f
}

// await waits in the background.
func (f *fixture) await() {
	f.Helper()
	if err := f.Watch(f.Context()); err != nil {
		f.Fatal(err)
	}
	go func() {
		if f.Await(f.Context()) == nil {
			close(f.free)
		}
	}()
}

// start does both.
func start(t *testing.T, pods ...client.Object) *fixture {
	t.Helper()
	f := prepare(t, pods...)
	f.await()
	return f
}

// after lets time pass and reports whether the Lease may be taken then.
func (f *fixture) after(wait time.Duration) bool {
	f.Helper()
	<-time.After(wait)
	synctest.Wait()
	select {
	case <-f.free:
		return true
	default:
		return false
	}
}

// gone has the node report that it has ended a pod that is being deleted.
func (f *fixture) gone(pod *corev1.Pod) {
	f.Helper()
	if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		f.Fatal(err)
	}
	pod.Finalizers = nil
	if err := f.client.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) delete(pod *corev1.Pod) {
	f.Helper()
	if err := f.client.Delete(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// metric returns what the manager's metrics say of the wait.
func metric(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "gha_controller_waits_for_other_revision" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no such metric")
	return 0
}

func (f *fixture) events() []eventsv1.Event {
	f.Helper()
	list := &eventsv1.EventList{}
	if err := f.client.List(f.Context(), list); err != nil {
		f.Fatal(err)
	}
	return list.Items
}

// A manager of ARC's that ignores its SIGTERM is waited for until its node has killed it, and longer if need be.
func TestTheLeaseIsNotTakenBesideAnotherRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := made("old", "theirs")
		f := start(t, theirs)
		if f.after(time.Minute); metric(t) != 1 {
			t.Errorf("the metric is %v while it waits", metric(t))
		}
		if f.after(0) || f.Ready() != nil {
			t.Fatalf("waits, and is ready as a standby is, while the rollout has not come to the old pod: %v", f.Ready())
		}
		f.delete(theirs)
		if f.after(24*time.Hour) || f.Ready() == nil ||
			!strings.Contains(f.Ready().Error(), "arc with another template live, and may act: theirs (is being deleted") {
			t.Fatalf("does not wait for a pod that is being deleted: %v", f.Ready())
		}
		if spent := f.lists.Load(); spent > 25*120+20 {
			t.Errorf("asked %d times in a day", spent)
		}
		f.gone(theirs)
		if !f.after(0) || f.Ready() != nil || metric(t) != 0 {
			t.Fatalf("still waits when it is gone: %v, metric %v", f.Ready(), metric(t))
		}
		if !strings.Contains(f.log.String(), "No pod of another revision of the manager's Deployment lives any more") {
			t.Error(f.log.String())
		}
	})
}

// An ordinary rollout is no news; one that takes long is told where an operator looks, a single time.
func TestALongWaitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := made("old", "theirs")
		f := prepare(t, theirs)
		f.delete(theirs)
		f.await()
		if f.after(20*time.Second) || len(f.events()) > 0 {
			t.Fatalf("tells of an ordinary rollout: %v", f.events())
		}
		if f.after(20*time.Minute) || len(f.events()) != 1 {
			t.Fatalf("%d Events, want 1", len(f.events()))
		}
		event := f.events()[0]
		if event.Reason != v1alpha1.ReasonOtherRevisionLives || event.Regarding.Name != "own" ||
			event.Related.Name != "theirs" || !strings.Contains(event.Note, "delete the Node") {
			t.Errorf("the Event says %+v", event)
		}
		if said := strings.Count(f.log.String(), "Waiting before"); said != 1 {
			t.Errorf("logged %d times, want once:\n%s", said, f.log.String())
		}
	})
}

// What the manager can't know, it waits for. A pod that has ended doesn't count.
func TestAListThatFailsIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := made("old", "ended")
		ended.Status.Phase = corev1.PodFailed
		f := prepare(t, ended)
		var refused error = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role"))
		f.refused.Store(&refused)
		f.await()
		if f.after(time.Hour) || metric(t) != 1 || f.Ready() == nil || !strings.Contains(f.Ready().Error(), "Roles allow it") {
			t.Fatalf("takes the Lease without knowing: %v", f.Ready())
		}
		f.refused.Store(nil)
		if !f.after(lookAgain) || f.Ready() != nil {
			t.Errorf("still waits: %v", f.Ready())
		}
	})
}

// When the chart of ARC takes the Deployment back, its pod starts before this one is told to end.
func TestALeaderSeesWhoActsWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		if !f.after(0) || f.Acting() != nil {
			t.Fatalf("is not alone: %v", f.Acting())
		}
		ours, theirs := made("next", "ours", "--program=harrier"), made("old", "theirs")
		theirs.Status.Phase = corev1.PodPending // its image can't be pulled, perhaps for ever
		for _, pod := range []*corev1.Pod{ours, theirs} {
			if err := f.client.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		if f.after(time.Second); f.Acting() != nil {
			t.Fatalf("gives up for one that takes the Lease, or has not started: %v", f.Acting())
		}
		theirs.Status.Phase = corev1.PodRunning
		if err := f.client.Status().Update(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		if f.after(0); !errors.Is(f.Acting(), ErrReplaced) || !strings.Contains(f.Acting().Error(), ": theirs;") {
			t.Errorf("does not see it: %v", f.Acting())
		}
	})
}

func TestAManagerWithoutADeploymentIsAlone(t *testing.T) {
	bare := made("", "bare")
	bare.OwnerReferences = nil
	others := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(bare, made("old", "theirs")).Build()
	for _, name := range []string{"", "bare", "unknown"} {
		found, err := Find(t.Context(), others, types.NamespacedName{Namespace: namespace, Name: name}, clock.RealClock{},
			logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(found.Watch(t.Context()), found.Await(t.Context()), found.Acting(), found.Ready()); err != nil {
			t.Errorf("with the pod %q: %v", name, err)
		}
	}
}
