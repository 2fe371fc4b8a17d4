package ignored_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ignored"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

const (
	managerNamespace = "arc-systems"
	setNamespace     = "arc-runners"
)

// steal is a listener by which a tenant asks for the credentials of another one's scale set, and for rights in its
// namespace.
func steal(namespace string) *v1alpha1.AutoscalingListener {
	return &v1alpha1.AutoscalingListener{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "steal", UID: "steal-uid",
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace},
	}}
}

// clientWith returns a client of an API server with these listeners.
func clientWith(listeners ...client.Object) client.WithWatch {
	builder := controllertest.NewKubernetes()
	for _, listener := range listeners {
		builder.WithObjects(listener.DeepCopyObject().(client.Object))
	}
	return builder.Build()
}

// newReporter returns a reporter that reads with the client, and the Events that it records.
func newReporter(reader client.Reader, watchNamespace string) (*ignored.Reporter, *events.FakeRecorder) {
	recorder := events.NewFakeRecorder(1000)
	limited := report.LimitEvents(recorder, clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0,
		time.UTC)))
	return ignored.NewReporter(reader, limited, managerNamespace, watchNamespace), recorder
}

// period is the time between two searches for listeners.
const period = time.Hour

// run runs a reporter, which has looked for the first time on return, and returns what ends it.
func run(t *testing.T, reporter *ignored.Reporter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- reporter.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
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
			synctest.Test(t, func(t *testing.T) {
				lists := 0
				reporter, recorder := newReporter(interceptor.NewClient(clientWith(test.listeners...), interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
						options ...client.ListOption) error {
						lists++
						return c.List(ctx, list, options...)
					},
				}), test.watch)
				stop := run(t, reporter)
				controllertest.Elapse(2 * period)
				stop()
				if told := controllertest.CountEvents(recorder, v1alpha1.ReasonListenerIgnored); told != test.want {
					t.Errorf("%d Events, want %d", told, test.want)
				}
				if lists != 3 && test.watch != managerNamespace {
					t.Errorf("looked %d times", lists)
				}
			})
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
	synctest.Test(t, func(t *testing.T) {
		reporter, recorder := newReporter(clientWith(append(listeners, steal("tenant-c"))...), "")
		defer run(t, reporter)()
		for _, want := range []int{20 + 1, 20, 10, 0} {
			if told := controllertest.CountEvents(recorder, v1alpha1.ReasonListenerIgnored); told != want {
				t.Errorf("%d Events, want %d", told, want)
			}
			controllertest.Elapse(period)
		}
	})
}

// They are looked for at the start and every hour, and sooner after a list that failed. Only metadata is read.
func TestListenersElsewhereAreLookedForEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		var answering atomic.Bool
		reporter, _ := newReporter(interceptor.NewClient(clientWith(), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
				options ...client.ListOption) error {
				lists.Add(1)
				if _, metadata := list.(*metav1.PartialObjectMetadataList); !metadata {
					t.Errorf("%T is listed", list)
				}
				if !answering.Load() {
					return errors.New("the API server is away")
				}
				return c.List(ctx, list, options...)
			},
		}), "")
		defer run(t, reporter)()
		answering.Store(true)
		for _, step := range []struct {
			pause time.Duration
			want  int32
		}{{0, 1}, {time.Minute, 2}, {period - time.Second, 2}, {time.Second, 3}, {period, 4}} {
			controllertest.Elapse(step.pause)
			if now := lists.Load(); now != step.want {
				t.Errorf("%d lists after another %s, want %d", now, step.pause, step.want)
			}
		}
	})
}
