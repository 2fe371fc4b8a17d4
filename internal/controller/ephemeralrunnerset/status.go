package ephemeralrunnerset

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

const (
	// reportPeriod is the shortest time between two writes of a set's status: a burst changes the counts a thousand times.
	reportPeriod = time.Second
	// unknownJobsAge is how long after a job's end it is news. A manager that has just started tells nothing older.
	unknownJobsAge = 10 * time.Minute
)

// report writes the status if it has changed, at most once a second, and then records the Events that go with it.
func (c *Controller) report(ctx context.Context, p *pass) error {
	set, s, now := p.set, p.state, c.options.Clock.Now()
	before := set.DeepCopy()
	s.Describe(&set.Status, set, p.views, p.plan)
	kept, lookAt := c.tellKept(ctx, p, now)
	report.SetConditions(&set.Status.Conditions, set.Generation, now, kept...)
	p.requeueBy(lookAt)
	if c.options.PublishMetrics {
		s.publishCounts(set)
		s.publishStates(set, p.views)
	}
	if equality.Semantic.DeepEqual(before.Status, set.Status) {
		return nil
	}
	if due := s.reportedAt.Add(reportPeriod); now.Before(due) {
		p.requeueBy(due)
		return nil
	}
	if _, err := kube.PatchStatus(ctx, c.options.Client, set, before); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.reportedAt = now
	c.recordEvents(ctx, before, set)
	return nil
}

// tellMoved records an Event about each node from which the set's runners are moved, once for each of its signs.
func (c *Controller) tellMoved(ctx context.Context, p *pass) {
	counts := map[departures.Departure]int{}
	for _, r := range p.plan.Moved {
		counts[p.departing[r.UID]]++
	}
	told := map[string]int{}
	for _, departure := range p.departing {
		if arrivals, known := p.state.toldMoved[departure.Node]; known && arrivals == departure.Arrivals {
			told[departure.Node] = arrivals
		}
	}
	for departure, count := range counts {
		if _, known := told[departure.Node]; known {
			continue
		}
		told[departure.Node] = departure.Arrivals
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Normal("RunnersMoved", "MoveRunners", fmt.Sprintf(
			"node %s %s: its runners without a job (%d of this set) are removed with GitHub's consent, and others take their places on other nodes; "+
				"runners with a job finish it", departure.Node, departure.Signs, count)))
	}
	p.state.toldMoved = told
}

// tellKept returns the condition that says how many of the set's runners can't be deleted because finalizers of others keep them or their
// pods, and who keeps the first one, and when to look again: no event of a runner tells what becomes of its pod. A condition that was
// never true is left out.
func (c *Controller) tellKept(ctx context.Context, p *pass, now time.Time) (conditions []metav1.Condition, lookAt time.Time) {
	kept := &p.state.kept
	kept.Begin()
	blocked, first := 0, ""
	for _, r := range p.views {
		if !r.Deleting && !r.Ended() && (r.Up() || r.Reason == "") {
			continue // nothing of it is being deleted
		}
		kind, keepers := "EphemeralRunner", strings.Fields(r.Keepers)
		if pod := c.podOf(ctx, p.set.Namespace, r); len(keepers) == 0 && pod != nil {
			lookAt = kube.EarlierOf(lookAt, now.Add(kube.KeptAfter))
			kind, keepers = "Pod", kube.PodKeepers(pod)
		}
		if len(keepers) == 0 {
			continue
		}
		if wait := kept.Look(r.UID+types.UID(kind), now); wait > 0 {
			lookAt = kube.EarlierOf(lookAt, now.Add(wait))
			continue
		}
		if blocked++; blocked == 1 {
			first = kube.WhyKept(kind, types.NamespacedName{Namespace: p.set.Namespace, Name: r.Name}, keepers)
		}
	}
	if blocked > 1 {
		first = fmt.Sprintf("%d runners can't be deleted; the first: %s", blocked, first)
	}
	switch {
	case blocked > 0:
		conditions = append(conditions, report.True(v1alpha1.ConditionDeletionBlocked, v1alpha1.ReasonForeignFinalizers, first))
	case meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionDeletionBlocked) != nil:
		conditions = append(conditions, report.False(v1alpha1.ConditionDeletionBlocked, "NothingKept", "no runner is kept by finalizers of others"))
	}
	return conditions, lookAt
}

// podOf returns a runner's pod as the cache has it, nil if there is none.
func (c *Controller) podOf(ctx context.Context, namespace string, r *roster.Runner) *corev1.Pod {
	pod := &corev1.Pod{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: r.Name}, pod, client.UnsafeDisableDeepCopy)
	if owner := metav1.GetControllerOfNoCopy(pod); err != nil || owner == nil || owner.UID != r.UID {
		return nil
	}
	return pod
}

// tellUnknownJobs records an Event about jobs that ended without success on runners that don't exist, if the listener has reported
// another one.
func (c *Controller) tellUnknownJobs(ctx context.Context, p *pass) {
	listener := p.set.Status.Listener
	if listener == nil || listener.UnknownRunnerJobs == nil {
		return
	}
	jobs, told := listener.UnknownRunnerJobs, p.state.toldJobsAt
	if !jobs.LastAt.After(told) || c.options.Clock.Since(jobs.LastAt.Time) > unknownJobsAge {
		return
	}
	p.state.toldJobsAt = jobs.LastAt.Time
	report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Warning("UnknownRunnerJob", "ReportJobs", fmt.Sprintf(
		"%d jobs since the listener started have ended without success on runners that don't exist here; the last: %s; "+
			"if the cluster was restored from a backup, or the runner was deleted by force, the job was lost with it: run it again on GitHub",
		jobs.Count, jobs.Last)))
}

// recordEvents records an Event for each condition that became true or false between two states of a set.
func (c *Controller) recordEvents(ctx context.Context, before, after *v1alpha1.EphemeralRunnerSet) {
	for _, conditionType := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionRunnerOutdated, v1alpha1.ConditionStatisticsDoubtful} {
		was := meta.IsStatusConditionTrue(before.Status.Conditions, conditionType)
		now := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		switch is := now != nil && now.Status == metav1.ConditionTrue; {
		case is && !was:
			report.RecordEvent(ctx, c.options.Recorder, after, nil, report.Warning(conditionType, "ScaleRunners", now.Message))
		case was && !is:
			report.RecordEvent(ctx, c.options.Recorder, after, nil, report.Normal(now.Reason, "ScaleRunners", now.Message))
		}
	}
}

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

// publishCounts publishes the counts in the set's status. Series with an earlier address would keep their last value forever,
// so it deletes them first. It also does so for a set that is new here, because it may replace a set that had other labels.
func (s *setState) publishCounts(set *v1alpha1.EphemeralRunnerSet) {
	scaleSet := kube.ScaleSetOf(set)
	labels := seriesLabels{
		scaleSet.Name, scaleSet.Namespace,
		set.Labels[v1alpha1.LabelRepository], set.Labels[v1alpha1.LabelOrganization], set.Labels[v1alpha1.LabelEnterprise],
	}
	if s.labels != labels {
		deleteCounts(scaleSet)
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
