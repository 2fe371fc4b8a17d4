package ephemeralrunnerset

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// It stays in the package: no fake API server has claims of one set in all states at the same time.
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
