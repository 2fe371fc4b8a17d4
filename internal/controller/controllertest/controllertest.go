// Package controllertest is the bench on which the tests of all controllers stand: a bubble whose clock advances only
// when everything is idle, a running pool, reconciles that must succeed, and helpers that read a fake API server and a
// fake EventRecorder.
package controllertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// maxConcurrentCalls is large enough for calls to run in parallel and small enough for some to wait.
const maxConcurrentCalls = 4

// InBubble runs a test in a bubble of testing/synctest, with a pool that runs for as long as the test.
func InBubble(t *testing.T, test func(t *testing.T, workers *pool.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		workers := pool.New(maxConcurrentCalls, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = workers.Start(ctx) }) // it returns when the context ends, and never fails
		t.Cleanup(func() { cancel(); running.Wait() })
		test(t, workers)
	})
}

// Reconcile runs one pass, which must succeed.
func Reconcile(t testing.TB, controller reconcile.Reconciler, object client.ObjectKey) reconcile.Result {
	t.Helper()
	result, err := controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: object})
	if err != nil {
		t.Fatalf("Reconcile() = %v", err)
	}
	return result
}

// Elapse lets time pass in a bubble, then waits until everything that has become due has run.
func Elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Create creates objects.
func Create(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// SelectByName makes a fake API server select objects of these kinds by their name, as a real one does with all kinds.
func SelectByName(builder *fake.ClientBuilder, kinds ...client.Object) *fake.ClientBuilder {
	for _, kind := range kinds {
		builder = builder.WithIndex(kind, metav1.ObjectNameField,
			func(object client.Object) []string { return []string{object.GetName()} })
	}
	return builder
}

// Read reads an object and reports whether it exists.
func Read(t testing.TB, c client.Reader, key client.ObjectKey, object client.Object) bool {
	t.Helper()
	err := c.Get(t.Context(), key, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// Items returns the objects of a list.
func Items(t testing.TB, list client.ObjectList) []client.Object {
	t.Helper()
	var objects []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(client.Object))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// Events returns the Events recorded since the last call, as "TYPE REASON NOTE".
func Events(recorder *events.FakeRecorder) []string {
	var recorded []string
	for {
		select {
		case event := <-recorder.Events:
			recorded = append(recorded, event)
		default:
			return recorded
		}
	}
}

// CountEvents counts the Events with a reason that were recorded since the last call, and drops all others.
func CountEvents(recorder *events.FakeRecorder, reason string) int {
	count := 0
	for _, event := range Events(recorder) {
		if strings.Contains(event, " "+reason+" ") {
			count++
		}
	}
	return count
}

// WantCondition fails the test unless there is a condition of the type with this status and reason.
func WantCondition(
	t testing.TB, conditions []metav1.Condition, about string, status metav1.ConditionStatus, reason string,
) {
	t.Helper()
	found := meta.FindStatusCondition(conditions, about)
	if found == nil || found.Status != status || found.Reason != reason {
		t.Errorf("condition %s = %s, want %s with reason %s", about, describeCondition(found), status, reason)
	}
}

func describeCondition(c *metav1.Condition) string {
	if c == nil {
		return "absent"
	}
	return fmt.Sprintf("%s, reason %s: %s", c.Status, c.Reason, c.Message)
}

// Origin returns an AutoscalingRunnerSet that gives a runner set exactly what it has, and makes the runner set belong
// to it.
func Origin(runnerSet *v1alpha1.EphemeralRunnerSet) *v1alpha1.AutoscalingRunnerSet {
	origin := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: runnerSet.Namespace, Name: kube.ScaleSetOf(runnerSet).Name,
		UID: "origin-of-" + runnerSet.UID, Labels: runnerSet.Labels,
	}}
	origin.Spec.MaxRunners = runnerSet.Spec.MaxRunners
	origin.Status.RunnerSpecHash = kube.RunnerSpecHash(&runnerSet.Spec)
	runnerSet.OwnerReferences = kube.OwnedBy(origin)
	return origin
}
