package ephemeralrunnerset_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// labelsOf returns the labels of a scale set's series, and further ones with their values.
func labelsOf(scaleSet types.NamespacedName, further ...string) prometheus.Labels {
	labels := prometheus.Labels{"name": scaleSet.Name, "namespace": scaleSet.Namespace}
	for i := 0; i < len(further); i += 2 {
		labels[further[i]] = further[i+1]
	}
	return labels
}

// runnersIn returns the number of a scale set's runners in a state, by the manager's metrics.
func runnersIn(t *testing.T, scaleSet types.NamespacedName, state roster.State) float64 {
	t.Helper()
	return controllertest.Value(t, "gha_controller_runners",
		labelsOf(scaleSet, "state", state.Name, "reason", state.Reason))
}

func seriesOfRunners(t *testing.T, scaleSet types.NamespacedName, further ...string) int {
	t.Helper()
	return len(controllertest.Series(t, "gha_controller_runners", labelsOf(scaleSet, further...)))
}

// publishes is a fixture whose controller publishes metrics.
func publishes(t *testing.T, test func(f *fixture), objects ...client.Object) {
	t.Helper()
	inBubble(t, func(f *fixture) {
		f.configure(func(o *ephemeralrunnerset.Options) { o.PublishMetrics = true })
		test(f)
	}, objects...)
}

// inScaleSet gives a set the labels of a scale set.
func inScaleSet(name string) func(*v1alpha1.EphemeralRunnerSet) {
	return func(set *v1alpha1.EphemeralRunnerSet) { set.Labels[v1alpha1.LabelScaleSetName] = name }
}

func TestRunnersAreCountedByStateAndReason(t *testing.T) {
	states := types.NamespacedName{Namespace: setKey.Namespace, Name: "states"}
	deleted := func(change func(*v1alpha1.EphemeralRunnerStatus)) func(*v1alpha1.EphemeralRunner) {
		return func(r *v1alpha1.EphemeralRunner) {
			r.Status.Phase, r.DeletionTimestamp = v1alpha1.EphemeralRunnerPhaseRunning, new(metav1.NewTime(start))
			change(&r.Status)
		}
	}
	in := func(phase v1alpha1.EphemeralRunnerPhase, reason string) func(*v1alpha1.EphemeralRunner) {
		return func(r *v1alpha1.EphemeralRunner) { r.Status.Phase, r.Status.Reason = phase, reason }
	}
	objects := []client.Object{newSet(0, inScaleSet("states"))}
	for i, change := range []func(*v1alpha1.EphemeralRunner){
		in(v1alpha1.EphemeralRunnerPhaseFailed, "ImagePullBackOff"),
		in(v1alpha1.EphemeralRunnerPhaseOutdated, "Outdated"),
		in(v1alpha1.EphemeralRunnerPhaseRunning, ""),
		func(r *v1alpha1.EphemeralRunner) {
			r.Status.Phase, r.Status.JobID = v1alpha1.EphemeralRunnerPhaseRunning, "1"
		},
		deleted(func(s *v1alpha1.EphemeralRunnerStatus) {
			meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: v1alpha1.ConditionDraining,
				Status: metav1.ConditionTrue, Reason: "JobRunning"})
		}),
		func(r *v1alpha1.EphemeralRunner) {
			r.Status.Phase, r.Status.JobID, r.Status.JobResult = v1alpha1.EphemeralRunnerPhaseRunning, "1", "succeeded"
		},
		deleted(func(*v1alpha1.EphemeralRunnerStatus) {}),
		in(v1alpha1.EphemeralRunnerPhaseSucceeded, ""),
		in("", "QuotaExceeded"), in("", "QuotaExceeded"), in("", ""),
	} {
		r := many(11)[i]
		r.Status, r.Finalizers = v1alpha1.EphemeralRunnerStatus{}, []string{v1alpha1.FinalizerEphemeralRunner}
		change(&r)
		objects = append(objects, &r)
	}
	publishes(t, func(f *fixture) {
		f.reconcile()
		for state, want := range map[roster.State]float64{
			{Name: "failed", Reason: "ImagePullBackOff"}: 1, {Name: "failed", Reason: "Outdated"}: 1,
			{Name: "idle", Reason: ""}: 1, {Name: "busy", Reason: ""}: 2, {Name: "finishing", Reason: ""}: 3,
			{Name: "pending", Reason: "QuotaExceeded"}: 2, {Name: "pending", Reason: ""}: 1,
		} {
			if got := runnersIn(t, states, state); got != want {
				t.Errorf("%v: %g, want %g", state, got, want)
			}
		}
		f.finishAll()
		controllertest.Elapse(2 * reportPeriod)
		f.reconcile()
		if got := runnersIn(t, states, roster.State{Name: "pending", Reason: "QuotaExceeded"}); got != 0 {
			t.Errorf("%g runners wait for quota, want none", got)
		}
		if setmetrics.Delete(states); seriesOfRunners(t, states) > 0 {
			t.Error("series of a deleted set are still there")
		}
	}, objects...)
}

// A set that ARC created has its own name, and one that it replaced may drain beside it. The series belong to the scale
// set, and end with the last of its sets.
func TestMetricsEndWithTheLastSetOfTheScaleSet(t *testing.T) {
	scaleSet := types.NamespacedName{Namespace: setKey.Namespace, Name: "taken-over"}
	takenOver := func(name string) *v1alpha1.EphemeralRunnerSet {
		return newSet(0, inScaleSet("taken-over"), func(set *v1alpha1.EphemeralRunnerSet) {
			set.Name, set.UID = name, types.UID(name)
		})
	}
	former, present := takenOver("taken-over-abcde"), takenOver("taken-over-fghij")
	origin := controllertest.Origin(present)
	former.OwnerReferences = present.OwnerReferences
	publishes(t, func(f *fixture) {
		f.ownOrigin = true
		reconcile := func(set *v1alpha1.EphemeralRunnerSet) {
			controllertest.Reconcile(t, f.controller, client.ObjectKeyFromObject(set))
		}
		goes := func(set *v1alpha1.EphemeralRunnerSet) {
			live := &v1alpha1.EphemeralRunnerSet{}
			controllertest.Read(t, f.api, client.ObjectKeyFromObject(set), live)
			live.Finalizers = nil
			if err := f.api.Update(t.Context(), live); err != nil {
				t.Fatal(err)
			}
			_ = f.api.Delete(t.Context(), live)
			reconcile(set)
		}
		reconcile(former)
		reconcile(present)
		if goes(former); seriesOfRunners(t, scaleSet) == 0 {
			t.Error("the series went with a set that had a successor")
		}
		if goes(present); seriesOfRunners(t, scaleSet) > 0 {
			t.Error("series of a scale set that is gone are still there")
		}
	}, former, present, origin)
}

// A dashboard that adds up the series of a scale set would otherwise count the runners of the former address forever.
func TestMetricsFollowTheAddress(t *testing.T) {
	scaleSet := types.NamespacedName{Namespace: setKey.Namespace, Name: "moves"}
	at := func(organization string) *v1alpha1.EphemeralRunnerSet {
		return newSet(0, inScaleSet("moves"), func(set *v1alpha1.EphemeralRunnerSet) {
			set.Labels[v1alpha1.LabelOrganization] = organization
		})
	}
	there := func(organization string) bool {
		return len(controllertest.Series(t, "gha_controller_running_ephemeral_runners",
			labelsOf(scaleSet, "organization", organization))) > 0
	}
	for name, move := range map[string]func(f *fixture) error{
		"the same set": func(f *fixture) error {
			set := f.set()
			set.Labels[v1alpha1.LabelOrganization] = "new"
			return f.api.Update(t.Context(), set)
		},
		"its replacement": func(f *fixture) error { return f.replaceBy(at("new")) },
	} {
		t.Run(name, func(t *testing.T) {
			publishes(t, func(f *fixture) {
				defer setmetrics.Delete(scaleSet)
				f.reconcile()
				if !there("old") {
					t.Error("there are no series of the old organization")
				}
				if err := move(f); err != nil {
					t.Fatal(err)
				}
				controllertest.Elapse(2 * reportPeriod)
				f.reconcile()
				if !there("new") || there("old") {
					t.Error("want the series of the new organization, and none of the old one")
				}
			}, at("old"))
		})
	}
}

// While a deleted set drains, perhaps for hours, its metrics still show its runners.
func TestMetricsOfADrainingSetAreKept(t *testing.T) {
	publishes(t, func(f *fixture) {
		f.reconcile()
		controllertest.Elapse(2 * reportPeriod)
		f.reconcile()
		scaleSet := kube.ScaleSetOf(f.set())
		defer setmetrics.Delete(scaleSet)
		pending := func() float64 { return runnersIn(t, scaleSet, roster.State{Name: "pending"}) }
		if got := pending(); got != 3 {
			t.Fatalf("%g pending runners, want 3", got)
		}
		f.delete()
		f.reconcile() // deletes the runners
		controllertest.Elapse(2 * reportPeriod)
		f.reconcile()
		if got := pending(); got != 0 {
			t.Errorf("%g pending runners of a set that is being deleted, want none", got)
		}
	}, newSet(3, inScaleSet("draining")))
}

// A listener may write the status of runners: fifty reasons make no more series than one.
func TestUnknownReasonsShareASeries(t *testing.T) {
	forged := types.NamespacedName{Namespace: setKey.Namespace, Name: "forged"}
	publishes(t, func(f *fixture) {
		defer setmetrics.Delete(forged)
		f.reconcile()
		fails := f.runners()[0].Name // one that replaces it may come before it
		for i := range 50 {
			for _, r := range f.runners() {
				if r.Status.Reason = fmt.Sprint("Forged", i); r.Name == fails {
					r.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed
				}
				if err := f.api.Status().Update(t.Context(), &r); err != nil {
					t.Fatal(err)
				}
			}
			controllertest.Elapse(reportPeriod)
			f.reconcile()
		}
		// Pending, idle, busy and finishing, and the two of unknown reason.
		if count := seriesOfRunners(t, forged); count != 6 {
			t.Errorf("%d series, want 6", count)
		}
		if got := runnersIn(t, forged, roster.State{Name: "failed", Reason: "Other"}); got != 1 {
			t.Errorf("%g failed runners of unknown reason, want 1", got)
		}
	}, newSet(2, inScaleSet("forged")))
}
