package ephemeralrunnerset_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A runner set that nobody owns goes, unless an AutoscalingRunnerSet is about to take it back.
func TestRunnerSetThatNobodyWillTakeBackGoes(t *testing.T) {
	another := func() *v1alpha1.EphemeralRunnerSet {
		set := newSet(0, func(s *v1alpha1.EphemeralRunnerSet) { s.Name, s.UID = "set-k7x2m", "another" })
		set.OwnerReferences = kube.OwnedBy(registeredOrigin())
		return set
	}
	deleting := registeredOrigin()
	deleting.DeletionTimestamp, deleting.Finalizers = new(metav1.Now()), []string{"x/y"}
	namesake := registeredOrigin()
	namesake.UID = "created-again"
	for name, test := range map[string]struct {
		change func(*v1alpha1.EphemeralRunnerSet)
		others []client.Object
		stays  bool
	}{
		"no AutoscalingRunnerSet": {change: func(s *v1alpha1.EphemeralRunnerSet) { s.OwnerReferences = nil }},
		"its owner is gone":       {change: func(*v1alpha1.EphemeralRunnerSet) {}},
		"one that is being deleted": {
			change: func(s *v1alpha1.EphemeralRunnerSet) {
				s.OwnerReferences = nil
			}, others: []client.Object{deleting}},
		"one that has another": {
			change: func(s *v1alpha1.EphemeralRunnerSet) { s.OwnerReferences = nil },
			others: []client.Object{registeredOrigin(), another()}},
		"labels of another namespace": {
			change: func(s *v1alpha1.EphemeralRunnerSet) {
				s.OwnerReferences, s.Name, s.Labels[v1alpha1.LabelScaleSetNamespace] = nil, "set", "elsewhere"
			}, others: []client.Object{func() client.Object { o := registeredOrigin(); o.Name = "other"; return o }()}},
		"one that has none": {
			change: func(s *v1alpha1.EphemeralRunnerSet) { s.OwnerReferences = nil },
			others: []client.Object{registeredOrigin()}, stays: true},
		"one of the same name that has none": {
			change: func(*v1alpha1.EphemeralRunnerSet) {}, others: []client.Object{namesake}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			set := setOf(registeredOrigin())
			set.OwnerReferences = kube.OwnedBy(registeredOrigin())
			test.change(set)
			inBubble(t, func(f *fixture) {
				f.ownOrigin = true
				f.reconcile()
				if f.set().DeletionTimestamp != nil {
					t.Error("it is deleted at once; a restore may bring its AutoscalingRunnerSet next")
				}
				controllertest.Elapse(differsPatience)
				for range 3 {
					f.reconcile()
				}
				err := f.api.Get(t.Context(), setKey, &v1alpha1.EphemeralRunnerSet{})
				if stays := !apierrors.IsNotFound(err); stays != test.stays {
					t.Errorf("it stays: %t, want %t", stays, test.stays)
				}
				if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonOwnerless); told > 1 ||
					told == 0 != test.stays {
					t.Errorf("%d Events", told)
				}
				f.wantRunners(0)
			}, append(test.others, set)...)
		})
	}
}

// beside returns a runner with the scale set's labels that is not the set's.
func beside(
	name string, owners []metav1.OwnerReference, phase v1alpha1.EphemeralRunnerPhase,
) *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{
		Namespace: setKey.Namespace, Name: name, UID: types.UID(name), OwnerReferences: owners,
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setKey.Namespace},
	}}
	runner.Status.Phase = phase
	return runner
}

// maxRunners counts what runs with the scale set's labels until it is gone, whoever owns it.
func TestRunnersBesideTheSetCount(t *testing.T) {
	former := newSet(0, func(s *v1alpha1.EphemeralRunnerSet) { s.Name, s.UID = "former", "former" })
	restored := newSet(0, func(s *v1alpha1.EphemeralRunnerSet) { s.Name, s.UID = "restored", "restored" })
	elsewhere := beside("elsewhere", nil, v1alpha1.EphemeralRunnerPhaseRunning)
	elsewhere.Labels[v1alpha1.LabelScaleSetNamespace] = "elsewhere"
	for name, test := range map[string]struct {
		runner *v1alpha1.EphemeralRunner
		counts bool
	}{
		"without an owner":                 {beside("a", nil, v1alpha1.EphemeralRunnerPhaseRunning), true},
		"that has no status":               {beside("a", nil, ""), true},
		"of a set that is gone":            {beside("a", kube.OwnedBy(newSet(0, func(s *v1alpha1.EphemeralRunnerSet) { s.Name, s.UID = "gone", "gone" })), ""), true},
		"of an earlier set of that name":   {beside("a", kube.OwnedBy(newSet(0, func(s *v1alpha1.EphemeralRunnerSet) { s.UID = "earlier" })), ""), true},
		"of a set without an owner":        {beside("a", kube.OwnedBy(restored), v1alpha1.EphemeralRunnerPhaseRunning), true},
		"that has ended":                   {beside("a", nil, v1alpha1.EphemeralRunnerPhaseFailed), false},
		"of another namespace's scale set": {elsewhere, false},
		"of a former set of its own, which the AutoscalingRunnerSet subtracts": {beside("a", kube.OwnedBy(former), v1alpha1.EphemeralRunnerPhaseRunning), false},
	} {
		t.Run(name, func(t *testing.T) {
			origin := registeredOrigin()
			origin.Spec.MaxRunners = new(2)
			set := setOf(origin)
			former.OwnerReferences, set.OwnerReferences, restored.OwnerReferences = kube.OwnedBy(origin),
				kube.OwnedBy(origin),
				nil
			inBubble(t, func(f *fixture) {
				f.ownOrigin = true
				result := f.reconcile()
				want := 3
				if test.counts {
					want = 2
				}
				f.wantRunners(want)
				if test.counts && result.RequeueAfter > besidePause {
					t.Errorf("looked at again after %s", result.RequeueAfter)
				}
				gone := test.runner.DeepCopy()
				if err := f.api.Delete(t.Context(), gone); err != nil {
					t.Fatal(err)
				}
				controllertest.Elapse(besidePause)
				f.reconcile()
				f.wantRunners(2)
			}, set, origin, former.DeepCopy(), restored.DeepCopy(), test.runner.DeepCopy())
		})
	}
}

// A set creates no more runners than maxRunners allows. Of those that others create for it, the first ones count.
func TestASetAdmitsNoMoreThanItMayHave(t *testing.T) {
	c := ephemeralrunnerset.NewController(ephemeralrunnerset.Options{MaxRunnersPerSet: 3, Clock: clock.RealClock{}})
	set, watch := newSet(0), controllertest.RunnerWatch{Handler: c.RunnerEvents()}
	var runners []v1alpha1.EphemeralRunner
	for i := range 5 {
		r := beside(fmt.Sprint("r", i), kube.OwnedBy(set), "")
		r.CreationTimestamp = metav1.NewTime(start)
		runners = append(runners, *r)
	}
	admit := func(set types.UID, runner types.NamespacedName, most int) bool {
		origin := &v1alpha1.AutoscalingRunnerSet{Spec: v1alpha1.AutoscalingRunnerSetSpec{MaxRunners: new(most)}}
		return c.Admit(origin, &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{UID: set}}, runner)
	}
	admitted := func(i, most int) bool { return admit(set.UID, client.ObjectKeyFromObject(&runners[i]), most) }
	if admitted(0, 0) || !admitted(0, 1) {
		t.Error("the first, which the watch has not shown, is not admitted as maxRunners says")
	}
	watch.Show(t.Context(), runners)
	if !admitted(4, 5) == admitted(4, 10) {
		t.Error("the manager's limit does not count")
	}
	for i, want := range []bool{true, true, false, false, false} {
		if got := admitted(i, 2); got != want {
			t.Errorf("runner %d of two that may be: admitted %t", i, got)
		}
	}
	runners[0].Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
	watch.Show(t.Context(), runners)
	if !admitted(2, 2) || admitted(3, 2) || !admitted(2, 1) {
		t.Error("want the next one when one has ended, and that it keeps its place")
	}
	if admit(set.UID, setKey, 2) || !admit("another", setKey, 1) {
		t.Error("one that the watch has yet to show is the youngest")
	}
}

// A set that has lost its owner still counts its lost jobs if nobody can tell, for now, whose it is: its runners don't
// wait longer than that.
func TestLostJobsOfAnOwnerlessSetAreCountedWhileItsOriginIsUnknown(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bringUp()
		f.settle()
		f.lose("Evicted", f.runners()[0])
		set := f.set()
		set.OwnerReferences = nil
		if err := f.api.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		f.ownOrigin, f.refuseList = true, errors.New("busy")
		if _, err := f.pass(); err == nil {
			t.Error("nothing says that the API server refused")
		}
		controllertest.Elapse(reportPeriod)
		if _, _ = f.pass(); f.set().Status.LostJobs != 1 {
			t.Errorf("%d lost jobs are counted, want 1", f.set().Status.LostJobs)
		}
	}, newSet(1))
}
