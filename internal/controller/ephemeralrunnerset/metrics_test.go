package ephemeralrunnerset

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

func TestRunnersAreCountedByStateAndReason(t *testing.T) {
	set := &v1alpha1.EphemeralRunnerSet{}
	set.Namespace = "ns"
	set.Labels = map[string]string{v1alpha1.LabelScaleSetName: "states", v1alpha1.LabelScaleSetNamespace: "ns"}
	value := func(state, reason string) float64 {
		return testutil.ToFloat64(runnersByState.WithLabelValues("states", "ns", state, reason))
	}
	s := &memory{}
	s.publishStates(set, []*roster.Runner{
		{Phase: v1alpha1.EphemeralRunnerPhaseFailed, Reason: "ImagePullBackOff"},
		{Phase: v1alpha1.EphemeralRunnerPhaseOutdated, Reason: "Outdated"},
		{Phase: v1alpha1.EphemeralRunnerPhaseRunning},
		{Phase: v1alpha1.EphemeralRunnerPhaseRunning, HadJob: true},
		{Phase: v1alpha1.EphemeralRunnerPhaseRunning, Deleting: true, Draining: true},
		{Phase: v1alpha1.EphemeralRunnerPhaseRunning, HadJob: true, Completed: true},
		{Phase: v1alpha1.EphemeralRunnerPhaseRunning, Deleting: true},
		{Phase: v1alpha1.EphemeralRunnerPhaseSucceeded},
		{Reason: "QuotaExceeded"}, {Reason: "QuotaExceeded"}, {},
	})
	for state, want := range map[roster.State]float64{
		{Name: "failed", Reason: "ImagePullBackOff"}: 1, {Name: "failed", Reason: "Outdated"}: 1,
		{Name: "idle", Reason: ""}: 1, {Name: "busy", Reason: ""}: 2, {Name: "finishing", Reason: ""}: 3,
		{Name: "pending", Reason: "QuotaExceeded"}: 2, {Name: "pending", Reason: ""}: 1,
	} {
		if got := value(state.Name, state.Reason); got != want {
			t.Errorf("%v: %g, want %g", state, got, want)
		}
	}
	s.publishStates(set, nil)
	if got := value("pending", "QuotaExceeded"); got != 0 {
		t.Errorf("%g runners wait for quota, want none", got)
	}
	setmetrics.Delete(types.NamespacedName{Namespace: "ns", Name: "states"})
	if runnersByState.DeleteLabelValues("states", "ns", "idle", "") {
		t.Error("a series of a deleted set was still there")
	}
}

func TestClaimsAreCountedByTemplateAndState(t *testing.T) {
	set := &v1alpha1.EphemeralRunnerSet{}
	set.Namespace = "ns"
	set.Labels = map[string]string{v1alpha1.LabelScaleSetName: "claims", v1alpha1.LabelScaleSetNamespace: "ns"}
	s := &memory{}
	s.publishClaims(set, map[string]volumeclaims.Counts{"go": {Total: 9, Leased: 2, Free: 3, Cloning: 1, Deleting: 1},
		"docker": {Total: 1, Free: 1}})
	check := func(wants map[claimState]float64) {
		t.Helper()
		for of, want := range wants {
			if got := testutil.ToFloat64(claimsByState.WithLabelValues("claims", "ns", of.template,
				of.state)); got != want {
				t.Errorf("%v: %g, want %g", of, got, want)
			}
		}
	}
	check(map[claimState]float64{
		{"go", "leased"}: 2, {"go", "free"}: 3, {"go", "cloning"}: 1, {"go", "deleting"}: 1, {"go", "other"}: 2,
		{"docker", "free"}: 1, {"docker", "other"}: 0,
	})
	s.publishClaims(set, map[string]volumeclaims.Counts{"go": {Total: 1, Leased: 1}})
	check(map[claimState]float64{{"go", "leased"}: 1, {"go", "free"}: 0, {"docker", "free"}: 0})
	setmetrics.Delete(types.NamespacedName{Namespace: "ns", Name: "claims"})
	if claimsByState.DeletePartialMatch(prometheus.Labels{"name": "claims"}) > 0 {
		t.Error("series of a deleted set were still there")
	}
}

// A set that ARC created has its own name, and one that it replaced may drain beside it. The series belong to the scale
// set, and end with the last of its sets.
func TestMetricsEndWithTheLastSetOfTheScaleSet(t *testing.T) {
	// series reports whether there were any, and deletes them.
	series := func() bool { return runnersByState.DeletePartialMatch(prometheus.Labels{"name": "taken-over"}) > 0 }
	takenOver := func(name string) *v1alpha1.EphemeralRunnerSet {
		return newSet(0, func(set *v1alpha1.EphemeralRunnerSet) {
			set.Name, set.UID, set.Labels[v1alpha1.LabelScaleSetName] = name, types.UID(name), "taken-over"
		})
	}
	former, present := takenOver("taken-over-abcde"), takenOver("taken-over-fghij")
	inBubble(t, func(f *fixture) {
		c := f.controller
		gone := func(set *v1alpha1.EphemeralRunnerSet) {
			if _, err := c.Reconcile(f.Context(),
				ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
				t.Error(err)
			}
		}
		c.MemoryOf(former).publishStates(former, nil)
		c.MemoryOf(present).publishStates(present, nil)
		gone(former)
		if !series() {
			t.Error("the series went with a set that had a successor")
		}
		c.MemoryOf(present).publishStates(present, nil)
		gone(present)
		if series() {
			t.Error("series of a scale set that is gone were still there")
		}
	})
}

// A dashboard that adds up the series of a scale set would otherwise count the runners of the former address forever.
func TestMetricsFollowTheAddress(t *testing.T) {
	at := func(organization string) *v1alpha1.EphemeralRunnerSet {
		return newSet(0, func(set *v1alpha1.EphemeralRunnerSet) {
			set.Labels[v1alpha1.LabelScaleSetName], set.Labels[v1alpha1.LabelOrganization] = "moves", organization
			set.Status.RunningEphemeralRunners = 2
		})
	}
	defer setmetrics.Delete(kube.ScaleSetOf(at("")))
	there := func(organization string) bool {
		return runningRunners.DeletePartialMatch(prometheus.Labels{"name": "moves", "organization": organization}) > 0
	}
	newcomer := func() *memory { return &memory{History: scaling.New(&creations.Memory{})} }
	same := newcomer()
	for name, second := range map[string]*memory{"the same set": same, "its replacement": newcomer()} {
		t.Run(name, func(t *testing.T) {
			same.publishCounts(at("old"), false)
			second.publishCounts(at("new"), false)
			if !there("new") || there("old") {
				t.Error("want the series of the new organization, and none of the old one")
			}
		})
	}
}

// While a deleted set drains, perhaps for hours, its metrics still show its runners.
func TestMetricsOfADrainingSetAreKept(t *testing.T) {
	named := func(set *v1alpha1.EphemeralRunnerSet) { set.Labels[v1alpha1.LabelScaleSetName] = "draining" }
	inBubble(t, func(f *fixture) {
		f.controller.options.PublishMetrics = true
		f.reconcile()
		controllertest.Elapse(2 * reportInterval)
		f.reconcile()
		scaleSet := kube.ScaleSetOf(f.set())
		defer setmetrics.Delete(scaleSet)
		pending := func() float64 {
			return testutil.ToFloat64(runnersByState.WithLabelValues(scaleSet.Name, scaleSet.Namespace,
				roster.Pending, ""))
		}
		if got := pending(); got != 3 {
			t.Fatalf("%g pending runners, want 3", got)
		}
		f.delete()
		f.reconcile() // deletes the runners
		controllertest.Elapse(2 * reportInterval)
		f.reconcile()
		if got := pending(); got != 0 {
			t.Errorf("%g pending runners of a set that is being deleted, want none", got)
		}
	}, newSet(3, named))
}

// A listener may write the status of runners: 10,000 reasons make no more series than one.
func TestUnknownReasonsShareASeries(t *testing.T) {
	set := newSet(0, func(set *v1alpha1.EphemeralRunnerSet) { set.Labels[v1alpha1.LabelScaleSetName] = "forged" })
	defer setmetrics.Delete(kube.ScaleSetOf(set))
	others := testutil.CollectAndCount(runnersByState)
	s := &memory{}
	for i := range 10_000 {
		failed, waits := roster.Runner{Phase: v1alpha1.EphemeralRunnerPhaseFailed}, roster.Runner{}
		failed.Reason, waits.Reason = fmt.Sprint("Forged", i), fmt.Sprint("Forged", i)
		s.publishStates(set, []*roster.Runner{&failed, &waits})
	}
	// Pending, idle, busy and finishing, and the two of unknown reason.
	if count := testutil.CollectAndCount(runnersByState) - others; count != 6 {
		t.Errorf("%d series, want 6", count)
	}
	if got := testutil.ToFloat64(runnersByState.WithLabelValues("forged", set.Labels[v1alpha1.LabelScaleSetNamespace],
		"failed", "Other")); got != 1 {
		t.Errorf("%g runners failed for another reason, want 1", got)
	}
}
