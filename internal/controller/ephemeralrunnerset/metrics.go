package ephemeralrunnerset

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// labelNames are ARC's, so that dashboards keep working. name and namespace are the scale set's.
var labelNames = []string{"name", "namespace", "repository", "organization", "enterprise"}

var (
	pendingRunners = gauge("pending_ephemeral_runners", "Number of ephemeral runners in a pending state.")
	runningRunners = gauge("running_ephemeral_runners", "Number of ephemeral runners in a running state.")
	failedRunners  = gauge("failed_ephemeral_runners", "Number of ephemeral runners in a failed state.")
)

func init() {
	metrics.Registry.MustRegister(pendingRunners, runningRunners, failedRunners)
}

func gauge(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "gha_controller", Name: name, Help: help}, labelNames)
}

func publishMetrics(set *v1alpha1.EphemeralRunnerSet) {
	labels := prometheus.Labels{
		"name":         set.Labels[v1alpha1.LabelScaleSetName],
		"namespace":    set.Labels[v1alpha1.LabelScaleSetNamespace],
		"repository":   set.Labels[v1alpha1.LabelRepository],
		"organization": set.Labels[v1alpha1.LabelOrganization],
		"enterprise":   set.Labels[v1alpha1.LabelEnterprise],
	}
	pendingRunners.With(labels).Set(float64(set.Status.PendingEphemeralRunners))
	runningRunners.With(labels).Set(float64(set.Status.RunningEphemeralRunners))
	failedRunners.With(labels).Set(float64(set.Status.FailedEphemeralRunners))
}

// deleteMetrics ends the series of a set that is gone. A set has the name of its scale set, or, made by ARC before 0.15,
// that name and a random suffix; then its series end with the manager.
func deleteMetrics(key types.NamespacedName) {
	for _, vector := range []*prometheus.GaugeVec{pendingRunners, runningRunners, failedRunners} {
		vector.DeletePartialMatch(prometheus.Labels{"name": key.Name, "namespace": key.Namespace})
	}
}
