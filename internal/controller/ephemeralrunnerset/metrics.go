package ephemeralrunnerset

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// labelNames are ARC's, so that dashboards keep working. name and namespace are the scale set's.
var labelNames = []string{"name", "namespace", "repository", "organization", "enterprise"}

// runnersByState has a series for each state and reason that there was a runner in; reasons are those of Kubernetes and of
// this product, some dozens at most.
var runnersByState = setmetrics.Gauge("runners",
	"Runners by state (pending, idle, busy, finishing, failed) and, of those that wait or failed, by reason.", "state", "reason")

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

// States of runners.
const (
	statePending   = "pending"
	stateIdle      = "idle"
	stateBusy      = "busy"
	stateFinishing = "finishing"
	stateFailed    = "failed"
)

// stateAndReason label a runner.
type stateAndReason struct{ state, reason string }

func stateOf(r *runner) stateAndReason {
	switch {
	case r.phase == v1alpha1.EphemeralRunnerPhaseFailed || r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		return stateAndReason{stateFailed, r.reason}
	case r.ended() || r.completed || r.deleting && !r.draining:
		return stateAndReason{state: stateFinishing}
	case r.hasJob || r.draining:
		return stateAndReason{state: stateBusy}
	case r.up():
		return stateAndReason{state: stateIdle}
	default:
		return stateAndReason{statePending, r.reason}
	}
}

// publishStates shows how many runners are in which state. A state that was there and has no runner any more shows 0.
func (m *setMemory) publishStates(set *v1alpha1.EphemeralRunnerSet, runners []*runner) {
	counts := map[stateAndReason]int{{state: statePending}: 0, {state: stateIdle}: 0, {state: stateBusy}: 0, {state: stateFinishing}: 0}
	for state := range m.published {
		counts[state] = 0
	}
	for _, r := range runners {
		counts[stateOf(r)]++
	}
	scaleSet := kube.ScaleSetOf(set)
	for state, count := range counts {
		runnersByState.WithLabelValues(scaleSet.Name, scaleSet.Namespace, state.state, state.reason).Set(float64(count))
	}
	m.published = counts
}

// seriesLabels are the values of labelNames.
type seriesLabels [5]string

func seriesLabelsOf(set *v1alpha1.EphemeralRunnerSet) seriesLabels {
	scaleSet := kube.ScaleSetOf(set)
	return seriesLabels{
		scaleSet.Name, scaleSet.Namespace,
		set.Labels[v1alpha1.LabelRepository], set.Labels[v1alpha1.LabelOrganization], set.Labels[v1alpha1.LabelEnterprise],
	}
}

// publishCounts drops the series of an earlier address first, which would keep their last value forever. A set that is new
// here does so as well: they may be of the one whose place it takes.
func (m *setMemory) publishCounts(set *v1alpha1.EphemeralRunnerSet) {
	if labels := seriesLabelsOf(set); m.labels != labels {
		deleteCounts(kube.ScaleSetOf(set))
		m.labels = labels
	}
	pendingRunners.WithLabelValues(m.labels[:]...).Set(float64(set.Status.PendingEphemeralRunners))
	runningRunners.WithLabelValues(m.labels[:]...).Set(float64(set.Status.RunningEphemeralRunners))
	failedRunners.WithLabelValues(m.labels[:]...).Set(float64(set.Status.FailedEphemeralRunners))
}

// deleteCounts goes by name alone, because the other labels follow the address.
func deleteCounts(scaleSet types.NamespacedName) {
	for _, vector := range []*prometheus.GaugeVec{pendingRunners, runningRunners, failedRunners} {
		vector.DeletePartialMatch(prometheus.Labels{"name": scaleSet.Name, "namespace": scaleSet.Namespace})
	}
}

// deleteMetrics ends the series of a scale set that is gone.
func deleteMetrics(scaleSet types.NamespacedName) {
	deleteCounts(scaleSet)
	setmetrics.Delete(scaleSet)
}
