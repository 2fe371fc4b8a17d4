package ephemeralrunnerset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/kube"
)

func (f *fixture) delete() {
	f.Helper()
	if err := f.api.Delete(f.Context(), f.set()); err != nil {
		f.Fatal(err)
	}
	f.requests["delete"] = 0
}

// finishAll ends the runners' own finalization.
func (f *fixture) finishAll() {
	f.Helper()
	for _, r := range f.runners() {
		f.finish(r)
	}
}

// finish ends one runner's own finalization.
func (f *fixture) finish(r v1alpha1.EphemeralRunner) {
	f.Helper()
	r.Finalizers = nil
	if err := f.api.Update(f.Context(), &r); err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
}

func (f *fixture) gone() bool {
	return apierrors.IsNotFound(f.api.Get(f.Context(), setKey, &v1alpha1.EphemeralRunnerSet{}))
}

func TestDeletedSetIsRemovedAfterItsRunners(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.delete()
		for range 3 {
			f.reconcile()
		}
		if f.requests["delete"] != 2 || f.requests["create"] != 2 || f.gone() {
			t.Errorf("requests %v, gone: %t; want 2 deletions, nothing created, and the set to wait", f.requests,
				f.gone())
		}
		f.finishAll()
		f.reconcile()
		if !f.gone() {
			t.Error("the set is left")
		}
		f.reconcile()
		if count := remembered(f.controller.EachMemory); count > 0 {
			t.Error("the set is remembered though it is gone")
		}
	}, newSet(2))
}

// The set that replaces a draining one gets the room of the runners that are gone, and no more.
func TestDeletedSetCountsTheRunnersThatAreLeft(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.bringUp()
		controllertest.Elapse(2 * reportPeriod)
		f.reconcile()
		f.delete()
		for left := 3; left > 0; left-- {
			controllertest.Elapse(2 * reportPeriod)
			f.reconcile()
			if got := f.set().Status; got.CurrentReplicas != left || got.RunningEphemeralRunners != left {
				t.Errorf("status %+v, want %d running", got, left)
			}
			if got := f.set().Status.Capacity; got == nil || *got != 1 {
				t.Errorf("capacity %v, want 1: nothing here runs another job, and yet 0 must not be announced", got)
			}
			f.finish(f.runners()[0])
		}
	}, newSet(3))
}

// Runners whose creation the cache does not show yet must not outlive their set.
func TestDeletedSetWaitsForRunnersThatAreNotVisibleYet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.delete()
		f.late = true
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != unseenPause || f.gone() {
			t.Errorf("again in %s, gone: %t", requeueAfter, f.gone())
		}
		f.late = false
		f.reconcile()
		f.finishAll()
		f.reconcile()
		if !f.gone() {
			t.Error("the set is left")
		}
	}, newSet(1))
}

func TestDeletedSetDoesNotWaitForeverForWhatWasNeverCreated(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		_, _ = f.pass()
		f.delete()
		f.reconcile()
		if f.gone() {
			t.Fatal("gone though the creation may have succeeded")
		}
		controllertest.Elapse(2 * expectationTimeout)
		f.reconcile()
		if !f.gone() {
			t.Error("the set is left")
		}
	}, newSet(1))
}

// remembered counts what is remembered.
func remembered[M any](each func(func(types.NamespacedName, *M))) (count int) {
	each(func(types.NamespacedName, *M) { count++ })
	return count
}

// Nothing is remembered of a set that was deleted and recreated between two passes.
func TestNamesakeIsAnotherSet(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.refuse = errNoAnswer
		_, _ = f.pass()
		namesake := newSet(1, func(set *v1alpha1.EphemeralRunnerSet) { set.UID = types.UID("namesake") })
		s := f.controller.MemoryOf(namesake)
		if unseen := s.Creations.Unseen(time.Now()); unseen != (creations.Unseen{}) ||
			!s.Creations.Allowed(time.Now()) {
			t.Errorf("expected still: %+v", unseen)
		}
	}, newSet(1))
}

// ARC has given the set the runner's finalizer, and builds of ours before this one another. None of them keeps the set
// when it is deleted, whether or not it was served before; what others have set stays.
func TestSetIsReleasedWhoeverMadeIt(t *testing.T) {
	for name, test := range map[string]struct{ before, served []string }{
		"ARC 0.4 to 0.14":           {[]string{"ephemeralrunner.actions.github.com/finalizer"}, []string{"ephemeralrunner.actions.github.com/finalizer"}},
		"an earlier build of ours":  {[]string{"ephemeralrunnerset.actions.github.com/finalizer"}, []string{v1alpha1.FinalizerEphemeralRunnerSet}},
		"ARC 0.15, and another's":   {[]string{"ephemeralrunnerset.actions.github.com/finalizer", "example.com/a"}, []string{"example.com/a", v1alpha1.FinalizerEphemeralRunnerSet}},
		"ARC 0.15 after 0.14":       {[]string{"ephemeralrunner.actions.github.com/finalizer", "ephemeralrunnerset.actions.github.com/finalizer"}, []string{v1alpha1.FinalizerEphemeralRunnerSet}},
		"ARC, and somebody else's":  {[]string{"example.com/a", "ephemeralrunner.actions.github.com/finalizer"}, []string{"example.com/a", "ephemeralrunner.actions.github.com/finalizer"}},
		"nobody has held it before": {nil, []string{v1alpha1.FinalizerEphemeralRunnerSet}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, served := range []bool{true, false} {
				inBubble(t, func(f *fixture) {
					if served {
						f.reconcile()
						if got := f.set().Finalizers; !slices.Equal(got, test.served) {
							t.Errorf("finalizers %v, want %v: ones that ARC serves, too, should somebody go back to it",
								got, test.served)
						}
					}
					if len(f.set().Finalizers) == 0 {
						return
					}
					f.delete()
					f.reconcile()
					f.finishAll()
					f.reconcile()
					if slices.Contains(test.before, "example.com/a") {
						if got := f.set().Finalizers; !slices.Equal(got, []string{"example.com/a"}) {
							t.Errorf("finalizers %v, want the foreign one", got)
						}
					} else if !f.gone() {
						t.Errorf("the set is left with %v", f.set().Finalizers)
					}
				}, newSet(2, func(s *v1alpha1.EphemeralRunnerSet) { s.Finalizers = test.before }))
			}
		})
	}
}

// keep deletes the set's runners as far as their own controller can: somebody's finalizer keeps the runner, or its pod.
func (f *fixture) keep(kind string) {
	f.Helper()
	for _, r := range f.runners() {
		if kind == "EphemeralRunner" {
			r.Finalizers = []string{"example.com/audit"}
			if err := f.api.Update(f.Context(), &r); err != nil {
				f.Fatal(err)
			}
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name,
			Finalizers: []string{"example.com/audit"}, OwnerReferences: kube.OwnedBy(&r)},
			Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
		if err := errors.Join(f.api.Create(f.Context(), pod), f.api.Delete(f.Context(), pod)); err != nil {
			f.Fatal(err)
		}
	}
}

// Within a minute the set says which runner can't go, whose finalizer keeps it or its pod, and how to remove that; it
// takes it back when the runner is gone. The same holds whether the set is deleted or has only fewer jobs.
func TestKeptRunnersAreTold(t *testing.T) {
	for _, kind := range []string{"EphemeralRunner", "Pod"} {
		for _, deleted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, set deleted: %t", kind, deleted), func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.reconcile()
					runner := f.runners()[0]
					if deleted {
						f.delete()
					} else if err := f.api.Delete(t.Context(), &runner); err != nil {
						t.Fatal(err)
					}
					f.reconcile()
					f.keep(kind)
					f.wantBlocked(metav1.ConditionStatus(""))
					for start := time.Now(); time.Since(start) < time.Minute-time.Second; {
						controllertest.Elapse(min(max(f.reconcile().RequeueAfter, 100*time.Millisecond),
							10*time.Second))
					}
					f.wantBlocked(metav1.ConditionTrue, kind+" arc-runners/"+runner.Name, "example.com/audit",
						"kubectl patch "+
							strings.ToLower(kind)+" "+runner.Name+" --namespace arc-runners")
					f.requests = map[string]int{}
					for range 10 {
						controllertest.Elapse(f.reconcile().RequeueAfter)
					}
					for request, n := range f.requests {
						if strings.HasPrefix(request, "patch") {
							t.Errorf("%d %s though nothing has changed", n, request)
						}
					}
					for _, r := range f.runners() {
						if r.Name == runner.Name {
							f.finish(r)
						}
					}
					controllertest.Elapse(reportPeriod)
					f.reconcile()
					if deleted {
						return // it is gone
					}
					f.wantBlocked(metav1.ConditionFalse)
				}, newSet(1))
			})
		}
	}
}

// wantBlocked fails unless the condition DeletionBlocked has the status, "" if it must be absent, and says all of the
// parts.
func (f *fixture) wantBlocked(status metav1.ConditionStatus, parts ...string) {
	f.Helper()
	found := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionDeletionBlocked)
	if found == nil && status == "" {
		return
	}
	if found == nil || found.Status != status {
		f.Fatalf("condition %+v, want status %q", found, status)
	}
	for _, part := range parts {
		if !strings.Contains(found.Message, part) {
			f.Errorf("%q doesn't say %q", found.Message, part)
		}
	}
}
