package ephemeralrunnerset

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// labelNames are ARC's, so that dashboards keep working. name and namespace are those of the scale set.
var labelNames = []string{"name", "namespace", "repository", "organization", "enterprise"}

// runnersByState has a series for each state and reason that a runner has been in. Reasons are known ones, or Other.
var runnersByState = setmetrics.Gauge("runners",
	"Runners by state (pending, idle, busy, finishing, failed, lost); pending, failed and lost ones also by reason.", "state", "reason")

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

// publishStates publishes how many runners are in each state. A state that had a runner and has none now shows 0.
func (s *setState) publishStates(set *v1alpha1.EphemeralRunnerSet, runners []*roster.Runner) {
	counts := map[roster.State]int{{Name: roster.Pending}: 0, {Name: roster.Idle}: 0, {Name: roster.Busy}: 0, {Name: roster.Finishing}: 0}
	for state := range s.published {
		counts[state] = 0
	}
	for _, r := range runners {
		counts[roster.StateOf(r)]++
	}
	scaleSet := kube.ScaleSetOf(set)
	for state, count := range counts {
		runnersByState.WithLabelValues(scaleSet.Name, scaleSet.Namespace, state.Name, state.Reason).Set(float64(count))
	}
	s.published = counts
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

// publishCounts publishes the counts in the set's status. Series with an earlier address would keep their last value forever,
// so it deletes them first. It also does so for a set that is new here, because it may replace a set that had other labels.
func (s *setState) publishCounts(set *v1alpha1.EphemeralRunnerSet) {
	if labels := seriesLabelsOf(set); s.labels != labels {
		deleteCounts(kube.ScaleSetOf(set))
		s.labels = labels
	}
	pendingRunners.WithLabelValues(s.labels[:]...).Set(float64(set.Status.PendingEphemeralRunners))
	runningRunners.WithLabelValues(s.labels[:]...).Set(float64(set.Status.RunningEphemeralRunners))
	failedRunners.WithLabelValues(s.labels[:]...).Set(float64(set.Status.FailedEphemeralRunners))
}

// deleteCounts deletes the counts of a scale set, whatever address their other labels name.
func deleteCounts(scaleSet types.NamespacedName) {
	for _, vector := range []*prometheus.GaugeVec{pendingRunners, runningRunners, failedRunners} {
		vector.DeletePartialMatch(prometheus.Labels{"name": scaleSet.Name, "namespace": scaleSet.Namespace})
	}
}
