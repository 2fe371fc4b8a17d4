package claims

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// It stays in the package: no fake API server has claims of one set in all states at the same time.
func TestClaimsAreCountedByTemplateAndState(t *testing.T) {
	templates := func(names ...string) (list []v1alpha1.VolumeClaimTemplate) {
		for _, name := range names {
			list = append(list, v1alpha1.VolumeClaimTemplate{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: name}})
		}
		return list
	}
	m, scaleSet := &series{}, types.NamespacedName{Namespace: "ns", Name: "claims"}
	setmetrics.Hold(scaleSet)
	m.publish(scaleSet, templates("go", "docker"), &volumeclaims.Decision{Counts: map[string]volumeclaims.Counts{
		"go": {Total: 9, Leased: 2, Free: 3, Cloning: 1, Deleting: 1}, "docker": {Total: 1, Free: 1},
	}})
	check := func(series int, wants map[claimState]float64) {
		t.Helper()
		if got := testutil.CollectAndCount(claimsByState); got != series {
			t.Errorf("there are %d series, want %d", got, series)
		}
		for of, want := range wants {
			if got := testutil.ToFloat64(claimsByState.WithLabelValues("claims", "ns", of.template,
				of.state)); got != want {
				t.Errorf("%v: %g, want %g", of, got, want)
			}
		}
	}
	check(10, map[claimState]float64{
		{"go", "leased"}: 2, {"go", "free"}: 3, {"go", "cloning"}: 1, {"go", "deleting"}: 1, {"go", "other"}: 2,
		{"docker", "free"}: 1, {"docker", "other"}: 0,
	})
	m.publish(scaleSet, templates("go"), &volumeclaims.Decision{Counts: map[string]volumeclaims.Counts{
		"go": {Total: 1, Leased: 1}, "docker": {Total: 2, Deleting: 1}, "npm": {Total: 1},
	}})
	check(10, map[claimState]float64{
		{"go", "leased"}: 1, {"go", "free"}: 0, {"(former)", "deleting"}: 1, {"(former)", "other"}: 2,
	})
	for i := range 500 { // a template is renamed, and the claims of the former ones go
		name := fmt.Sprint("t", i)
		m.publish(scaleSet, templates(name), &volumeclaims.Decision{Counts: map[string]volumeclaims.Counts{
			name: {}, fmt.Sprint("t", i-1): {Total: 1, Deleting: 1},
		}})
	}
	check(10, map[claimState]float64{{"t499", "free"}: 0, {"(former)", "deleting"}: 1})
	m.publish(scaleSet, nil, nil)
	check(0, nil)
	m.publish(scaleSet, templates("go"), &volumeclaims.Decision{Counts: map[string]volumeclaims.Counts{"go": {}}})
	setmetrics.Release(scaleSet)
	check(0, nil)
}

// How full claims are is told of the templates that there are, and no longer when there are none.
func TestHowFullClaimsAreIsToldByTemplate(t *testing.T) {
	templates := []v1alpha1.VolumeClaimTemplate{{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "go"}},
		{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "docker"}}}
	scaleSet := types.NamespacedName{Namespace: "ns", Name: "full"}
	setmetrics.Hold(scaleSet)
	defer setmetrics.Release(scaleSet)
	(&series{}).publish(scaleSet, templates, &volumeclaims.Decision{AwaitPlace: sets.New("r"), Counts: map[string]volumeclaims.Counts{
		"go": {FullestPercent: 96}, "docker": {}, "former": {FullestPercent: 99}}})
	if got := testutil.CollectAndCount(usedRatio); got != 1 {
		t.Errorf("%d series, want that of the template of which something is known", got)
	}
	if got := testutil.ToFloat64(usedRatio.WithLabelValues("full", "ns", "go")); got != 0.96 {
		t.Errorf("%g of the fullest is used, want 0.96", got)
	}
	if got := testutil.ToFloat64(awaitPlace.WithLabelValues("full", "ns")); got != 1 {
		t.Errorf("%g runners wait for a place, want 1", got)
	}
	(&series{}).publish(scaleSet, nil, nil)
	if got := testutil.CollectAndCount(usedRatio) + testutil.CollectAndCount(awaitPlace); got != 0 {
		t.Errorf("%d series are left", got)
	}
}
