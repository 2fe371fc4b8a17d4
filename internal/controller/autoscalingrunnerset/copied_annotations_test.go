package autoscalingrunnerset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// annotated returns a set as ARC leaves it, or a copy of such a set: with annotations and without status.
func annotated(name string) *v1alpha1.AutoscalingRunnerSet {
	return newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Annotations = map[string]string{v1alpha1.AnnotationRunnerScaleSetID: "1",
			v1alpha1.AnnotationRunnerScaleSetName: name}
	})
}

func TestCopiedAnnotationTakesOverNothing(t *testing.T) {
	for name, outage := range map[string]error{"GitHub answers": nil,
		"GitHub answers later": errors.New("connection refused")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "victim", 1, "victim")}
				f.github.NextID = 2
				f.github.Fail(outage)
				f.create(annotated("set"))
				f.settle()
				f.github.Fail(nil)
				f.restart()
				f.settle()
				if got := f.github.Sets[address][1]; got.Name != "victim" {
					t.Errorf("scale set 1 is now %+v", got)
				}
				if got := f.set().Status.Registration; got == nil || got.ID != 2 {
					t.Errorf("registration = %+v, want scale set 2", got)
				}
				if told := f.events(); slices.ContainsFunc(told,
					func(e string) bool { return strings.Contains(e, "ScaleSetRecreated") }) {
					t.Errorf("somebody else's scale set is told to be gone: %q", told)
				}
			})
		})
	}
}

// TestCopyOfAWholeSetGetsAScaleSetOfItsOwn: the copy has the other's id and the name that belongs to it, and asks for
// another.
func TestCopyOfAWholeSetGetsAScaleSetOfItsOwn(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Name, s.UID = "first", "first-uid" }))
		first := types.NamespacedName{Namespace: setNamespace, Name: "first"}
		for range 3 {
			controllertest.Reconcile(f, f.controller, first)
			controllertest.Elapse(2 * statusInterval)
		}
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
			s.Annotations = map[string]string{v1alpha1.AnnotationRunnerScaleSetID: "1",
				v1alpha1.AnnotationRunnerScaleSetName: "first"}
		}))
		f.settle()
		if got := f.set().Status.Registration; got == nil || got.ID != 2 || got.Name != setKey.Name {
			t.Errorf("registration = %+v, want scale set 2 of the name %q", got, setKey.Name)
		}
	})
}

func TestDeletionOfACopyDeletesNothingOfOthers(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "victim", 1, "victim")}
		f.github.Fail(errors.New("connection refused"))
		copied := annotated("set")
		copied.Finalizers = []string{"example.com/hold"}
		f.create(copied)
		f.settle()
		if len(f.listeners()) > 0 {
			t.Error("a listener is made for a scale set of which nobody knows whose it is")
		}
		f.github.Fail(nil)
		f.restart()
		f.github.Made()
		f.delete()
		f.settle()
		if diff := cmp.Diff([]string{"get", "find"}, f.github.Made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if f.set().Annotations[v1alpha1.AnnotationRunnerScaleSetID] != "" {
			t.Error("the listener waits for a deregistration that won't come")
		}
	})
}

// TestRenamedInTheSpecAfterARC: the name that ARC has recorded proves that the id is ours, whatever name the spec has
// now.
func TestRenamedInTheSpecAfterARC(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "before", 1, "before")}
		f.create(annotated("Before"))
		f.settle()
		if sets := f.github.Sets[address]; len(sets) != 1 || sets[1].Name != "set" {
			t.Errorf("scale sets %+v, want the first one renamed", sets)
		}
	})
}

func TestARCsScaleSetIsDeletedBeforeItWasConfirmed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, "set", 1, "set")}
		f.github.Fail(errors.New("connection refused"))
		f.create(annotated("set"))
		f.settle()
		f.github.Fail(nil)
		f.delete()
		for range 10 {
			controllertest.Elapse(max(f.reconcile().RequeueAfter, scaleset.DeregisterTimeout/100))
			for _, listener := range f.listeners() {
				f.release(&listener)
			}
			if f.gone() {
				break
			}
		}
		if len(f.github.Sets[address]) > 0 {
			t.Errorf("scale sets %+v are left", f.github.Sets[address])
		}
	})
}

// copiedFormer creates a second set, with an annotation that lists the scale set of the first as a former one.
func (f *fixture) copiedFormer(id int, uid string) {
	f.Helper()
	text := fmt.Sprintf(`[{"url":%q,"id":%d,"name":"set","uid":%q}]`, address, id, uid)
	f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Name, s.UID, s.CreationTimestamp = "copy", "copy-uid", metav1.NewTime(time.Now().Add(time.Hour))
		s.Annotations = map[string]string{"actions.github.com/former-registrations": text}
	}))
	key := types.NamespacedName{Namespace: setNamespace, Name: "copy"}
	for range 5 {
		controllertest.Reconcile(f, f.controller, key)
		controllertest.Elapse(2 * statusInterval)
	}
}

// TestCopiedListOfFormerScaleSetsDeletesNothing: neither the one that another set uses, nor one that its busy runners
// need.
func TestCopiedListOfFormerScaleSetsDeletesNothing(t *testing.T) {
	for name, uid := range map[string]string{"of this version": "set-uid", "of an earlier version": ""} {
		for state, moved := range map[string]bool{"in use": false, "left": true} {
			t.Run(name+", "+state, func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.create(newSet())
					f.settle()
					runner := f.busy()
					if moved {
						f.move(newAddress)
						f.settle()
					}
					f.copiedFormer(1, uid)
					if calls := f.github.Made(); slices.Contains(calls, "delete 1") {
						t.Errorf("calls %q: another set's scale set was deleted", calls)
					}
					if err := f.client.Delete(t.Context(), runner); err != nil {
						t.Fatal(err)
					}
					f.settle()
					if calls := f.github.Made(); slices.Contains(calls, "delete 1") != moved {
						t.Errorf("calls %q: the set deletes what it left, and only that", calls)
					}
				})
			})
		}
	}
}

// TestListOfFormerScaleSetsFromAnotherClusterDeletesNothing: which sets of the other cluster hold a scale set is not
// known here.
func TestListOfFormerScaleSetsFromAnotherClusterDeletesNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.copiedFormer(7, "set-uid")
		if calls := f.github.Made(); slices.Contains(calls, "delete 7") {
			t.Errorf("calls %q: another cluster's scale set was deleted", calls)
		}
	})
}

// TestFormerScaleSetThatAnotherSetFoundStays: the other set is created for the address that the first has left, and
// finds its scale set there.
func TestFormerScaleSetThatAnotherSetFoundStays(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		runner := f.busy()
		f.move(newAddress)
		f.settle()
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Name, s.UID, s.Spec.RunnerScaleSetName = "heir", "heir-uid", setKey.Name
		}))
		for range 5 {
			controllertest.Reconcile(f, f.controller, types.NamespacedName{Namespace: setNamespace, Name: "heir"})
			controllertest.Elapse(2 * statusInterval)
		}
		if err := f.client.Delete(t.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if calls := f.github.Made(); slices.Contains(calls, "delete 1") {
			t.Errorf("calls %q: the heir's scale set was deleted", calls)
		}
	})
}
