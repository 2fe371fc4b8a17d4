package ephemeralrunnerset

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// runnersByState has a series for each state and reason that a runner has been in. Reasons are known ones, or Other.
var runnersByState = setmetrics.Gauge("runners",
	"Runners by state (pending, idle, busy, finishing, failed, lost); pending, failed and lost ones also by reason.",
	"state", "reason")

var advertisedCapacity = setmetrics.Gauge("advertised_capacity",
	"Number of jobs that GitHub may assign to the scale set at a time, as it is told; no series if nothing "+
		"limits that.")

// The names and labels of these are ARC's, so that dashboards keep working.
var (
	pendingRunners = countGauge("pending_ephemeral_runners", "Number of ephemeral runners in a pending state.")
	runningRunners = countGauge("running_ephemeral_runners", "Number of ephemeral runners in a running state.")
	failedRunners  = countGauge("failed_ephemeral_runners", "Number of ephemeral runners in a failed state.")
)

func countGauge(name, help string) *prometheus.GaugeVec {
	return setmetrics.Gauge(name, help, "repository", "organization", "enterprise")
}

// series are those of one set. states hold the runners' states that have series, labels are those of the series that
// count runners the way ARC does.
type series struct {
	states map[roster.State]int
	labels seriesLabels
}

// seriesLabels are the values of the labels of the series that count runners the way ARC does.
type seriesLabels [5]string

// publish publishes the counts in the set's status, and those of its runners' states. Series with an earlier address would keep their last value
// forever, so it deletes them first. It also does so for a set that is new here, because it may replace a set that had
// other labels.
func (s *series) publish(
	scaleSet types.NamespacedName, set *v1alpha1.EphemeralRunnerSet, drained bool, runners []*roster.Runner,
) {
	labels := seriesLabels{
		scaleSet.Name, scaleSet.Namespace,
		set.Labels[v1alpha1.LabelRepository], set.Labels[v1alpha1.LabelOrganization],
		set.Labels[v1alpha1.LabelEnterprise],
	}
	for vector, count := range map[*prometheus.GaugeVec]int{
		pendingRunners: set.Status.PendingEphemeralRunners, runningRunners: set.Status.RunningEphemeralRunners,
		failedRunners: set.Status.FailedEphemeralRunners,
	} {
		if s.labels != labels {
			vector.DeletePartialMatch(prometheus.Labels{"name": scaleSet.Name, "namespace": scaleSet.Namespace})
		}
		vector.WithLabelValues(labels[:]...).Set(float64(count))
	}
	if most := set.AdvertisedCapacity(drained); most != nil {
		advertisedCapacity.WithLabelValues(scaleSet.Name, scaleSet.Namespace).Set(float64(*most))
	} else {
		advertisedCapacity.DeleteLabelValues(scaleSet.Name, scaleSet.Namespace)
	}
	s.labels = labels
	s.publishStates(scaleSet, runners)
}

// publishStates publishes the number of runners in each state. A state that had a runner and has none now shows 0.
func (s *series) publishStates(scaleSet types.NamespacedName, runners []*roster.Runner) {
	counts := map[roster.State]int{{Name: roster.Pending}: 0, {Name: roster.Idle}: 0, {Name: roster.Busy}: 0,
		{Name: roster.Finishing}: 0}
	for state := range s.states {
		counts[state] = 0
	}
	for _, r := range runners {
		counts[roster.StateOf(r)]++
	}
	for state, count := range counts {
		runnersByState.WithLabelValues(scaleSet.Name, scaleSet.Namespace, state.Name, state.Reason).Set(float64(count))
	}
	s.states = counts
}
