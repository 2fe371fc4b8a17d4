package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// listenerFor returns a listener whose labels and spec name a set.
func listenerFor(namespace, name string, labels, spec types.NamespacedName) *v1alpha1.AutoscalingListener {
	return &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			v1alpha1.LabelScaleSetName: labels.Name, v1alpha1.LabelScaleSetNamespace: labels.Namespace,
		}},
		Spec: v1alpha1.AutoscalingListenerSpec{AutoscalingRunnerSetNamespace: spec.Namespace,
			AutoscalingRunnerSetName: spec.Name},
	}
}

// ignoredIn returns the doctor's findings about ignored listeners.
func ignoredIn(t *testing.T, namespace string, objects ...client.Object) (said []string) {
	t.Helper()
	snapshot, err := snapshot.Gather(t.Context(), cluster(t, allow, objects...), namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range diagnosis.Diagnose(snapshot) {
		if found.Reason == v1alpha1.ReasonListenerIgnored {
			if found.Severity != finding.Warning || !strings.Contains(found.Fix, "delete") {
				t.Errorf("finding %+v", found)
			}
			said = append(said, found.Object+": "+found.Message)
		}
	}
	return said
}

func TestIgnoredListeners(t *testing.T) {
	set, none := types.NamespacedName{Namespace: "runners", Name: "linux"},
		types.NamespacedName{Namespace: "runners", Name: "none"}
	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "m",
		Labels: map[string]string{v1alpha1.LabelPartOf: snapshot.PartOfController}}}
	own := listenerFor("system", "linux-listener", set, set)
	own.Finalizers = []string{v1alpha1.FinalizerAutoscalingListener}
	all := append(objects(), manager, own)
	for name, test := range map[string]struct {
		listener *v1alpha1.AutoscalingListener
		why      string
	}{
		"elsewhere":         {listenerFor("tenant-b", "steal", set, set), "Namespace tenant-b: AutoscalingListeners that the manager ignores: steal (no manager runs in this namespace)"},
		"contradictory":     {listenerFor("system", "steal", set, none), `"runners/linux" and its spec "runners/none"`},
		"without a set":     {listenerFor("system", "steal", none, none), "there is no scale set runners/none"},
		"of a set with one": {listenerFor("system", "steal", set, set), "scale set runners/linux has another, linux-listener"},
	} {
		t.Run(name, func(t *testing.T) {
			if said := ignoredIn(t, "", append(slices.Clone(all), test.listener)...); len(said) != 1 ||
				!strings.Contains(said[0], test.why) {
				t.Errorf("findings %q, want one with %q", said, test.why)
			}
		})
	}
	if said := ignoredIn(t, "", all...); len(said) > 0 {
		t.Errorf("the set's own is ignored: %q", said)
	}
	other := types.NamespacedName{Namespace: "tenant-b", Name: "other"}
	if said := ignoredIn(t, "runners", append(slices.Clone(all),
		listenerFor("tenant-b", "steal", other, other))...); len(said) > 0 {
		t.Errorf("asked about namespace runners: %q", said)
	}
	many := slices.Clone(all)
	for i := range 50 {
		many = append(many, listenerFor("tenant-b", fmt.Sprint("steal-", i), set, set))
	}
	if said := ignoredIn(t, "runners", many...); len(said) != 1 || !strings.Contains(said[0], "and 40 more") {
		t.Errorf("of many: %q", said)
	}
}

// Labels are anybody's to write: a listener in a tenant's namespace is not taken for that of another tenant's set.
func TestListenerOfASetIsItsManagers(t *testing.T) {
	set := types.NamespacedName{Namespace: "runners", Name: "linux"}
	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "m",
		Labels: map[string]string{v1alpha1.LabelPartOf: snapshot.PartOfController}}}
	snapshot, err := snapshot.Gather(t.Context(),
		cluster(t, allow, append(objects(), manager, listenerFor("system", "own", set, set),
			listenerFor("tenant-b", "a", set, set))...), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if listener := snapshot.Sets[0].Listener; listener == nil || listener.Namespace != "system" {
		t.Errorf("listener %+v", listener)
	}
}

// A ledger without a pod is told as one, and not taken for a manager: listeners in its namespace stay ignored.
func TestALedgerIsNoManager(t *testing.T) {
	set := types.NamespacedName{Namespace: "runners", Name: "linux"}
	about := func(namespace, partOf, component string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "d",
			Labels: map[string]string{v1alpha1.LabelPartOf: partOf, v1alpha1.LabelComponent: component}}
	}
	all := append(objects(),
		&appsv1.Deployment{ObjectMeta: about("system", snapshot.PartOfController, "controller-manager")},
		&appsv1.StatefulSet{ObjectMeta: about("reports", "harrier", "history")},
		&appsv1.StatefulSet{ObjectMeta: about("web", "harrier", "site")},
		listenerFor("system", "linux-listener", set, set), listenerFor("reports", "steal", set, set))
	if said := ignoredIn(t, "", all...); len(said) != 1 ||
		!strings.Contains(said[0], "steal (no manager runs in this namespace)") {
		t.Errorf("findings %q", said)
	}
	found, err := snapshot.Gather(t.Context(), cluster(t, allow, all...), "", "")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, finding := range diagnosis.Diagnose(found) {
		if finding.Reason == "HistoryNotRunning" {
			told = append(told, finding.Object)
		}
	}
	if want := []string{"StatefulSet reports/d"}; !slices.Equal(told, want) {
		t.Errorf("ledgers that don't run: %q, want %q", told, want)
	}
}
