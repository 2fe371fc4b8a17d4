package autoscalingrunnerset_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube"
)

// twinKey is a set with the same name on GitHub as the fixture's first. It is created in the same second, and its name
// sorts after it.
var twinKey = types.NamespacedName{Namespace: setNamespace, Name: "twin"}

func newTwin(change ...func(*v1alpha1.AutoscalingRunnerSet)) *v1alpha1.AutoscalingRunnerSet {
	return newSet(append(change, func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Name, s.UID, s.Labels[v1alpha1.LabelScaleSetName] = twinKey.Name, "twin-uid", twinKey.Name
		s.Spec.RunnerScaleSetName = setKey.Name
	})...)
}

func (f *fixture) twin() *v1alpha1.AutoscalingRunnerSet {
	f.Helper()
	twin := &v1alpha1.AutoscalingRunnerSet{}
	controllertest.Read(f, f.client, twinKey, twin)
	return twin
}

// settleBoth runs passes of both sets, each before the answers to the other's.
func (f *fixture) settleBoth() {
	f.Helper()
	for range 6 {
		for _, key := range []types.NamespacedName{setKey, twinKey} {
			controllertest.Reconcile(f, f.controller, key)
		}
		controllertest.Elapse(2 * statusInterval)
		f.finalizeListeners()
	}
}

// sharing creates both sets as an earlier version may have left them, registered with one scale set. GitHub answers the
// first set first.
func (f *fixture) sharing() {
	f.Helper()
	f.github.Sets[address] = map[int]actions.RunnerScaleSet{1: labelled(1, setKey.Name, 1, setKey.Name)}
	f.github.NextID = 2
	registered := v1alpha1.ScaleSetRegistration{URL: address, Group: "Default", Name: setKey.Name, ID: 1}
	for _, set := range []*v1alpha1.AutoscalingRunnerSet{newSet(), newTwin()} {
		journal.Register(set, registered)
		f.create(set)
		set.Status.Registration = &registered
		f.updateStatus(set)
	}
	f.settle()
}

// wantOneOwner fails unless one of the two sets has scale set 1 and the other stands back, with nothing that works for
// it.
func (f *fixture) wantOneOwner() {
	f.Helper()
	owner, other := f.set(), f.twin()
	if owner.Status.Registration == nil {
		owner, other = other, owner
	}
	if got := owner.Status.Registration; got == nil || got.ID != 1 {
		f.Errorf("registration of the owner = %+v, want scale set 1", got)
	}
	controllertest.WantCondition(f, other.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue,
		v1alpha1.ReasonScaleSetInUse)
	if other.Status.Registration != nil || other.Annotations[v1alpha1.AnnotationRunnerScaleSetID] != "" {
		f.Errorf("the other is registered: %+v, annotations %v", other.Status.Registration, other.Annotations)
	}
	if listeners := f.listeners(); len(listeners) != 1 ||
		listeners[0].Spec.AutoscalingRunnerSetName != owner.Name || len(f.runnerSets()) != 1 {
		f.Errorf("%d listeners and %d EphemeralRunnerSets, want those of the owner alone", len(listeners),
			len(f.runnerSets()))
	}
}

func TestOneOfTwoThatRegisterAtOnceStandsBack(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet(), newTwin())
		f.settleBoth()
		f.wantOneOwner()
		if calls := f.github.Made(); slices.Contains(calls, "update") {
			t.Errorf("calls %q: the scale set was changed", calls)
		}
	})
}

func TestOneOfTwoThatHaveRegisteredGivesWay(t *testing.T) {
	for name, restarted := range map[string]bool{"same manager": false, "manager anew": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.sharing()
				if restarted {
					f.restart()
				}
				f.settleBoth()
				f.wantOneOwner()
			})
		})
	}
}

// TestRenamedTwinsEndWithAScaleSetEach: the condition tells the user to rename one.
func TestRenamedTwinsEndWithAScaleSetEach(t *testing.T) {
	for renamed, key := range map[string]types.NamespacedName{"the twin": twinKey, "the owner": setKey} {
		for state, separated := range map[string]bool{"while they share": false, "once one stood back": true} {
			t.Run(renamed+" "+state, func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.sharing()
					if separated {
						f.settleBoth()
					}
					set := &v1alpha1.AutoscalingRunnerSet{}
					controllertest.Read(f, f.client, key, set)
					set.Spec.RunnerScaleSetName = "unique"
					set.Generation++
					if err := f.client.Update(t.Context(), set); err != nil {
						t.Fatal(err)
					}
					f.settleBoth()
					controllertest.Elapse(scaleset.RetryLongestBackoff)
					f.settleBoth()
					first, twin := f.set().Status.Registration, f.twin().Status.Registration
					if first == nil || twin == nil || first.ID != 1 || twin.ID != 2 || len(f.listeners()) != 2 {
						t.Errorf("registrations %+v and %+v with %d listeners, want scale sets 1 and 2", first, twin,
							len(f.listeners()))
					}
					renamedTo := map[types.NamespacedName]*v1alpha1.ScaleSetRegistration{setKey: first,
						twinKey: twin}[key]
					if renamedTo != nil && renamedTo.Name != "unique" {
						t.Errorf("registration %+v, want the new name", renamedTo)
					}
				})
			})
		}
	}
}

func TestTwinsDeletedTogetherLeaveNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.sharing()
		f.settleBoth()
		for _, set := range []client.Object{f.set(), f.twin()} {
			if err := f.client.Delete(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			f.settleBoth()
		}
		if left := f.github.Sets[address]; len(left) > 0 || !f.gone() {
			t.Errorf("gone %t, left on GitHub: %+v", f.gone(), left)
		}
	})
}

func TestSetThatIsBeingDeletedTakesNoScaleSetAway(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.sharing()
		set := f.set()
		set.Finalizers = append(set.Finalizers, "example.com/hold")
		if err := f.client.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		f.delete()
		f.settleBoth()
		if got := f.twin().Status.Registration; got == nil || got.ID != 1 || len(f.github.Sets[address]) != 1 {
			t.Errorf("registration of the twin = %+v, scale sets %+v; want it to go on", got, f.github.Sets[address])
		}
		if c := meta.FindStatusCondition(f.twin().Status.Conditions, v1alpha1.ConditionStalled); c != nil &&
			c.Status == metav1.ConditionTrue {
			t.Errorf("the twin is stalled: %s", c.Message)
		}
	})
}

// TestOneHostMayBeTwoServers: behind proxies, http:// and https:// of one host need not lead to one GitHub, and ids
// begin at 1 on each.
func TestOneHostMayBeTwoServers(t *testing.T) {
	const other = "http://github.com/my-org"
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.github.NextID = 1
		twin := newTwin()
		twin.Spec.GitHubConfigUrl, twin.Spec.RunnerScaleSetName = other, twin.Name
		f.create(twin)
		f.settleBoth()
		if first, second := f.set().Status.Registration, f.twin().Status.Registration; first == nil || second == nil ||
			first.ID != second.ID {
			t.Fatalf("registrations %+v and %+v, want one of the same id on each", first, second)
		}
		f.delete()
		f.settleBoth()
		if len(f.github.Sets[address]) > 0 || len(f.github.Sets[other]) != 1 || !f.gone() {
			t.Errorf("gone %t, scale sets %+v, want only the twin's", f.gone(), f.github.Sets)
		}
	})
}

// A pass looks at who holds its own scale set only: with thousands of others it must cost no more.
func TestScaleSetsOfOthersCostAPassNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		listed := 0
		pass := func() (allocations float64, records int) {
			listed = 0
			return testing.AllocsPerRun(20, func() { controllertest.Reconcile(f, f.controller, setKey) }), listed
		}
		indexers := cache.Indexers{}
		for name, index := range holders.Indexes {
			indexers[name] = func(object any) ([]string, error) { return index(object.(client.Object)), nil }
		}
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
		var leases coordinationv1.LeaseList
		if err := f.client.List(f.Context(), &leases); err != nil || len(leases.Items) != 1 {
			t.Fatalf("error %v, records %+v", err, leases.Items)
		}
		own := leases.Items[0]
		if err := indexer.Add(&own); err != nil {
			t.Fatal(err)
		}
		f.intercept.List = func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			leases, ok := list.(*coordinationv1.LeaseList)
			if !ok {
				return c.List(ctx, list, options...)
			}
			wanted := client.ListOptions{}
			wanted.ApplyOptions(options)
			asked := wanted.FieldSelector.Requirements()[0]
			found, err := indexer.ByIndex(asked.Field, asked.Value)
			for _, object := range found {
				leases.Items = append(leases.Items, *object.(*coordinationv1.Lease))
			}
			listed += len(found)
			return err
		}
		f.restart()
		f.settle()
		few, alone := pass()
		for i := range 5000 {
			other := own.DeepCopy()
			other.Name, other.Spec.HolderIdentity = fmt.Sprint("scale-set-", i), new(fmt.Sprint("elsewhere/set-", i))
			if err := indexer.Add(other); err != nil {
				t.Fatal(err)
			}
		}
		// a pass allocates what it will for other reasons, but nothing for each of them
		if many, records := pass(); alone == 0 || records != alone || many > few+1000 {
			t.Errorf("%.0f allocations and %d records with 5,000 elsewhere, %.0f and %d without", many, records, few, alone)
		}
	})
}

// A runner set that ARC made has a name of its own, and a listener may take its labels or its owner away. It must be
// found all the same: a second one beside it would double what the set may run.
func TestARunnerSetWithoutItsMarksIsFound(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.EphemeralRunnerSet){
		"labels": func(taken *v1alpha1.EphemeralRunnerSet) { taken.Labels = nil },
		"owner":  func(taken *v1alpha1.EphemeralRunnerSet) { taken.OwnerReferences = nil },
	} {
		t.Run("without "+name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				set := newSet()
				f.create(set, &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{
					Namespace: setKey.Namespace, Name: "set-x7k2p", UID: "arcs", OwnerReferences: kube.OwnedBy(set),
					Finalizers: []string{v1alpha1.FinalizerEphemeralRunnerSet},
				}})
				f.settle()
				taken := f.runnerSets()[0]
				change(&taken)
				if err := f.client.Update(f.Context(), &taken); err != nil {
					t.Fatal(err)
				}
				f.settle()
				all := f.runnerSets()
				if len(all) != 1 || all[0].Name != taken.Name || kube.ScaleSetOf(&all[0]) != setKey ||
					!metav1.IsControlledBy(&all[0], set) {
					t.Errorf("%d runner sets, the first is %s with labels %v", len(all), all[0].Name, all[0].Labels)
				}
			})
		})
	}
}
