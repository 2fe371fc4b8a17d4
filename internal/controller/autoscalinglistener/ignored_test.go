package autoscalinglistener

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// steal is a listener by which a tenant asks for the credentials of another one's scale set, and for rights in its namespace.
func steal(namespace string) *v1alpha1.AutoscalingListener {
	return newListener(func(listener *v1alpha1.AutoscalingListener) {
		listener.Namespace, listener.Name, listener.UID = namespace, "steal", "steal-uid"
	})
}

// objects returns everything that a listener can bring about, with its resource version.
func (f *fixture) objects() map[string]string {
	f.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ServiceAccountList{}, &corev1.PodList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&v1alpha1.AutoscalingListenerList{}} {
		if err := f.client.List(f.Context(), list); err != nil {
			f.Fatal(err)
		}
		for _, object := range controllertest.Items(f, list) {
			found[fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))] = object.GetResourceVersion()
		}
	}
	return found
}

// Only the listener that the manager wrote for a set is served. Nothing is read, made or changed for others.
func TestOtherListenersAreIgnored(t *testing.T) {
	for name, test := range map[string]struct {
		listener *v1alpha1.AutoscalingListener
		why      string
	}{
		"in another namespace": {steal("tenant-b"), ""},
		"in the set's":         {steal(setNamespace), ""},
		"without labels": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.Labels = "steal", nil
		}), "its labels name no scale set"},
		"with another set's labels": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.Labels[v1alpha1.LabelScaleSetNamespace] = "steal", "tenant-b"
		}), "its labels name scale set tenant-b/set and its spec arc-runners/set"},
		"of a set that doesn't exist": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.Labels[v1alpha1.LabelScaleSetName], l.Spec.AutoscalingRunnerSetName = "steal", "none", "none"
		}), "there is no AutoscalingRunnerSet arc-runners/none"},
		"of a set that has one": {newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.CreationTimestamp = "steal", metav1.Now()
		}), "scale set arc-runners/set has another listener, set-listener"},
	} {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			f.create(test.listener)
			before := f.objects()
			for range 4 {
				controllertest.Reconcile(t, f.controller, client.ObjectKeyFromObject(test.listener))
			}
			f.settle()
			if diff := cmp.Diff(before, f.objects()); diff != "" {
				t.Errorf("objects:\n%s", diff)
			}
			var told []string
			for _, event := range controllertest.Events(f.recorder) {
				if strings.Contains(event, v1alpha1.ReasonListenerIgnored) {
					told = append(told, event)
				}
			}
			if test.why == "" && len(told) == 0 {
				return // lookForIgnored tells
			}
			if len(told) != 1 || !strings.Contains(told[0], test.why) {
				t.Errorf("Events %q, want one that says %q", told, test.why)
			}
		})
	}
}

// The manager may have created the listener, but has not written all of it, or ARC wrote it.
func TestListenerIsServedOnceTheManagerHasWrittenIt(t *testing.T) {
	f := newFixture(t)
	f.create(newSet(), newListener(func(l *v1alpha1.AutoscalingListener) { delete(l.Annotations, v1alpha1.AnnotationIntegrityHash) }))
	before := f.objects()
	f.settle()
	if diff := cmp.Diff(before, f.objects()); diff != "" {
		t.Errorf("objects:\n%s", diff)
	}
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Annotations[v1alpha1.AnnotationIntegrityHash] = "written" })
	f.settle()
	if f.pod() == nil {
		t.Error("there is no pod")
	}
}

// Whoever edits a listener that was served, so that it names another namespace, makes the manager delete nothing there.
func TestEditedListenerEndsWithoutTouchingOtherNamespaces(t *testing.T) {
	f := started(t)
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.AutoscalingRunnerSetNamespace = "tenant-b" })
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-b", Name: key.Name, Labels: map[string]string{
		v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace,
		v1alpha1.LabelListenerName: key.Name, v1alpha1.LabelListenerNamespace: key.Namespace,
	}}}
	f.create(role)
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if f.live(role) == nil {
		t.Error("the Role in the other namespace is deleted")
	}
	if left := f.exists(); left["listener"] || left["pod"] || left["config"] {
		t.Errorf("left: %v", left)
	}
}

// reporter returns a controller that reads these listeners, and the Events that it records.
func reporter(t *testing.T, options Options, listeners ...client.Object) (*fixture, *events.FakeRecorder) {
	t.Helper()
	f := newFixture(t)
	for _, listener := range listeners {
		f.create(listener.DeepCopyObject().(client.Object))
	}
	recorder := events.NewFakeRecorder(1000)
	options.Reader, options.Recorder, options.Namespace = f.client, report.LimitEvents(recorder, f.clock), managerNamespace
	f.controller = NewController(options)
	return f, recorder
}

func TestListenersElsewhereAreReportedOnce(t *testing.T) {
	labelled := func(namespace, set string) *v1alpha1.AutoscalingListener {
		listener := steal(namespace)
		listener.UID = types.UID(namespace + set)
		listener.Labels[v1alpha1.LabelScaleSetNamespace] = set
		return listener
	}
	own, b := labelled(managerNamespace, setNamespace), labelled("tenant-b", setNamespace)
	for name, test := range map[string]struct {
		watch     string
		listeners []client.Object
		want      int
	}{
		"all namespaces":        {"", []client.Object{own, b, labelled("tenant-c", "tenant-c")}, 2},
		"the watched namespace": {"tenant-b", []client.Object{own, labelled("tenant-b", "tenant-b"), labelled("tenant-c", "tenant-c")}, 1},
		"of a manager there":    {"tenant-b", []client.Object{own, b}, 0},
		"its own":               {managerNamespace, []client.Object{own}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f, recorder := reporter(t, Options{WatchNamespace: test.watch}, test.listeners...)
			for range 3 {
				if err := f.controller.lookForIgnored(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if told := controllertest.CountEvents(recorder, v1alpha1.ReasonListenerIgnored); told != test.want {
				t.Errorf("%d Events, want %d", told, test.want)
			}
		})
	}
}

// A namespace full of listeners gets some Events in each period, and costs the others none.
func TestManyListenersElsewhere(t *testing.T) {
	var listeners []client.Object
	for i := range 50 {
		listener := steal("tenant-b")
		listener.Name, listener.UID = fmt.Sprintf("steal-%d", i), types.UID(fmt.Sprint(i))
		listeners = append(listeners, listener)
	}
	f, recorder := reporter(t, Options{}, append(listeners, steal("tenant-c"))...)
	for _, want := range []int{ignoredEvents + 1, ignoredEvents, 50 - 2*ignoredEvents, 0} {
		if err := f.controller.lookForIgnored(t.Context()); err != nil {
			t.Fatal(err)
		}
		if told := controllertest.CountEvents(recorder, v1alpha1.ReasonListenerIgnored); told != want {
			t.Errorf("%d Events, want %d", told, want)
		}
	}
}

// They are looked for at the start and every hour, and sooner after a list that failed. Only metadata is read.
func TestListenersElsewhereAreLookedForEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := reporter(t, Options{})
		var lists atomic.Int32
		var answering atomic.Bool
		f.controller.options.Reader = interceptor.NewClient(f.client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				lists.Add(1)
				if _, metadata := list.(*metav1.PartialObjectMetadataList); !metadata {
					t.Errorf("%T is listed", list)
				}
				if !answering.Load() {
					return errors.New("the API server is away")
				}
				return c.List(ctx, list, options...)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.controller.reportIgnored(ctx) }()
		synctest.Wait()
		answering.Store(true)
		for _, step := range []struct {
			pause time.Duration
			want  int32
		}{{0, 1}, {ignoredRetry, 2}, {ignoredPeriod - time.Second, 2}, {time.Second, 3}, {ignoredPeriod, 4}} {
			controllertest.Elapse(step.pause)
			if now := lists.Load(); now != step.want {
				t.Errorf("%d lists after another %s, want %d", now, step.pause, step.want)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
