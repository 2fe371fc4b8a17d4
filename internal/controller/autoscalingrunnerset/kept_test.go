package autoscalingrunnerset_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// What a deletion waits for although the manager has done all it can: finalizers that it doesn't serve.

const foreign = "resources-finalizer.argocd.argoproj.io"

// elapse runs passes as the controller asks for them, for that long.
func (f *fixture) elapse(long time.Duration) {
	f.Helper()
	for start := time.Now(); time.Since(start) < long; {
		controllertest.Elapse(min(max(f.reconcile().RequeueAfter, 100*time.Millisecond), 10*time.Second))
	}
}

// keep leaves an object nothing but a foreign finalizer.
func (f *fixture) keep(object client.Object) {
	f.Helper()
	object.SetFinalizers([]string{foreign})
	f.put(object)
}

// Whatever keeps a set that is deleted, the set says within a minute which object it is, whose finalizer, and what to
// type. A single Event says it, for the listener too, as long as one can be created: in a namespace that is being
// deleted none can.
func TestDeletionSaysWhatKeepsIt(t *testing.T) {
	for name, test := range map[string]struct {
		keep   func(f *fixture)
		object string
		told   int // Events
	}{
		"EphemeralRunnerSet": {func(f *fixture) { f.keep(&f.runnerSets()[0]) }, "ephemeralrunnerset set --namespace arc-runners", 2},
		"AutoscalingListener": {func(f *fixture) {
			f.release(&f.runnerSets()[0])
			f.settle()
			f.keep(&f.listeners()[0])
		}, "autoscalinglistener set-", 2},
		"AutoscalingRunnerSet": {func(f *fixture) {
			set := f.set()
			set.Finalizers = append([]string{foreign}, set.Finalizers...)
			f.put(set)
			f.release(&f.runnerSets()[0])
			f.settle()
			f.release(&f.listeners()[0])
		}, "autoscalingrunnerset set --namespace arc-runners", 1},
		"a runner, as its set says": {func(f *fixture) {
			runnerSet := f.runnerSets()[0]
			meta.SetStatusCondition(&runnerSet.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionDeletionBlocked, Status: metav1.ConditionTrue,
				Reason:  v1alpha1.ReasonForeignFinalizers,
				Message: "kubectl patch pod x " + foreign,
			})
			f.updateStatus(&runnerSet)
		}, "pod x", 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.deletable()
				f.settle()
				f.stopListener()
				f.settle()
				f.events()
				test.keep(f)
				f.elapse(time.Minute - time.Second)
				f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonForeignFinalizers)
				f.wantCondition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionTrue,
					v1alpha1.ReasonForeignFinalizers)
				message := meta.FindStatusCondition(f.set().Status.Conditions,
					v1alpha1.ConditionDeletionBlocked).Message
				if !strings.Contains(message, foreign) || !strings.Contains(message, "kubectl patch "+test.object) {
					t.Errorf("message %q, want the finalizer and a command for %s", message, test.object)
				}
				for range 40 { // not as often as the controller asks for, which makes no difference to Events
					controllertest.Elapse(15 * time.Second)
					f.reconcile()
				}
				told := 0
				for _, event := range f.events() {
					if strings.Contains(event, v1alpha1.ReasonForeignFinalizers) && strings.Contains(event, foreign) {
						told++
					}
				}
				if told != test.told {
					t.Errorf("%d Events, want %d", told, test.told)
				}
			})
		})
	}
}

// A finalizer that somebody serves goes in time, and nobody is told.
func TestServedFinalizersAreNotReported(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.settle()
		f.stopListener()
		f.settle()
		f.events()
		f.keep(&f.runnerSets()[0])
		f.elapse(10 * time.Second)
		if c := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionDeletionBlocked); c != nil {
			t.Errorf("condition %+v", c)
		}
		f.release(&f.runnerSets()[0])
		f.settle()
		f.release(&f.listeners()[0])
		f.settle()
		if !f.gone() {
			t.Error("the set is left")
		}
		for _, event := range f.events() {
			if strings.Contains(event, v1alpha1.ReasonForeignFinalizers) {
				t.Error(event)
			}
		}
	})
}

// A set that works on has an EphemeralRunnerSet that somebody has deleted and somebody else keeps: it can't create
// runners.
func TestSetWhoseRunnerSetIsKeptSaysSo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.settle()
		runnerSet := f.runnerSets()[0]
		runnerSet.Finalizers = []string{foreign}
		f.put(&runnerSet)
		if err := f.client.Delete(t.Context(), &runnerSet); err != nil {
			t.Fatal(err)
		}
		f.elapse(time.Minute - time.Second)
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForeignFinalizers)
		wantEvent(t, f.events(), v1alpha1.ReasonForeignFinalizers)
		f.release(&f.runnerSets()[0])
		f.settle()
		f.settle()
		f.wantCondition(v1alpha1.ConditionDeletionBlocked, metav1.ConditionFalse, "NothingKept")
	})
}
