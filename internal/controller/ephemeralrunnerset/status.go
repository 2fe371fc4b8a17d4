package ephemeralrunnerset

import (
	"cmp"
	"context"
	"errors"
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

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/departures"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// reportInterval is the shortest time between two writes of a set's status that only move counts: a burst changes them
// a thousand times.
const reportInterval = time.Second

// pace limits the writes of a set's status. Each publication of the listener makes a new generation, and nobody waits
// for the status to name it.
var pace = report.Pace{Figures: reportInterval, Echo: 5 * time.Second}

const (
	// A job's end is no news any more after unknownJobsAge. A manager that has just started tells nothing older.
	unknownJobsAge = 10 * time.Minute
)

// report says what was seen and decided, in the status and by metrics. The counts stay correct while the set drains:
// its AutoscalingRunnerSet shows the number of runners it is waiting for, and lets the set that replaces this one use
// the room of runners that are gone. The metrics then belong to that set. The pass fails, too, if the API server did
// not say which runners exist.
func (c *Controller) report(ctx context.Context, w *world) error {
	set, m := w.Object, w.Memory
	before := set.DeepCopy()
	if w.deleting() {
		m.DescribeLeft(&set.Status, set, w.views, w.Now)
	} else {
		m.Describe(&set.Status, set, w.views, w.plan)
		w.describeClaims()
		w.describeRoom()
	}
	report.SetConditions(&set.Status.Conditions, set.Generation, w.Now, c.kept(ctx, w)...)
	if set.Status.Checks = w.checks; !w.deleting() {
		report.SetConditions(&set.Status.Conditions, set.Generation, w.Now, w.permitted()...)
	}
	if c.options.PublishMetrics && (!w.deleting() || !c.isReplaced(m)) {
		m.publishCounts(set, w.drained())
		m.publishStates(w.views)
	}
	return errors.Join(w.listErr, c.writeStatus(ctx, w, before))
}

// describeRoom writes into the status the number of jobs for which GitHub is told that there is room. A condition that
// was never true is left out.
func (w *world) describeRoom() {
	status := &w.Object.Status
	limited := report.False(v1alpha1.ConditionCapacityLimited, "AllAnnounced",
		"capacity.mode is Static: GitHub is told of room for maxRunners jobs")
	if w.room != nil {
		status.Capacity, status.Placement = &w.room.Announced, w.room.Status(status.Placement)
		limited = w.room.Condition()
	} else {
		status.Placement = nil
	}
	if w.drained() {
		limited = report.True(v1alpha1.ConditionCapacityLimited, v1alpha1.ReasonDrained,
			"GitHub gives the set no jobs, because its AutoscalingRunnerSet has the "+
				"annotation "+v1alpha1.AnnotationDrained)
	}
	if w.room != nil || meta.FindStatusCondition(status.Conditions, limited.Type) != nil {
		report.SetConditions(&status.Conditions, w.Object.Generation, w.Now, limited)
	}
}

// writeStatus writes the status when its change is due, and then records the Events that go with it.
func (c *Controller) writeStatus(ctx context.Context, w *world, before *v1alpha1.EphemeralRunnerSet) error {
	m := w.Memory
	if !equality.Semantic.DeepEqual(m.described, w.Object.Status) {
		m.described, m.movedAt = *w.Object.Status.DeepCopy(), w.Now
	}
	change := changeOf(&before.Status, &w.Object.Status)
	if change == report.ChangeNone {
		m.changedAt = time.Time{}
		return nil
	}
	kube.SetIfZero(&m.changedAt, w.Now)
	due := pace.DueAt(change, m.reported, m.changedAt, m.movedAt)
	if change == report.ChangeTurn && reconcile.IsStale(before, m.reported.Version) {
		due = w.Now.Add(report.TurnInterval)
	}
	if w.Now.Before(due) {
		w.RequeueAt(due)
		return nil
	}
	began := c.options.Clock.Now() // the pass may have taken longer than a period
	if _, err := kube.PatchStatus(ctx, c.options.Client, w.Object, before); err != nil {
		return client.IgnoreNotFound(err)
	}
	now := c.options.Clock.Now()
	m.reported, m.changedAt = report.Written{At: now, Took: now.Sub(began), Version: w.Object.ResourceVersion},
		time.Time{}
	if !w.deleting() {
		c.recordEvents(ctx, before, w.Object)
	}
	return nil
}

// changeOf returns the kind of change that a write of the status would make. The listener waits for a capacity that
// comes or goes, and the AutoscalingRunnerSet for the phase.
func changeOf(before, after *v1alpha1.EphemeralRunnerSetStatus) report.Change {
	if report.Turned(before.Conditions, after.Conditions) || before.Phase != after.Phase ||
		(before.Capacity == nil) != (after.Capacity == nil) {
		return report.ChangeTurn
	}
	if equality.Semantic.DeepEqual(before, after) {
		return report.ChangeNone
	}
	bare := before.DeepCopy()
	bare.ObservedGeneration, bare.Conditions = after.ObservedGeneration, after.Conditions
	same := equality.Semantic.DeepEqual(report.WithoutGeneration(before.Conditions),
		report.WithoutGeneration(after.Conditions))
	if same && equality.Semantic.DeepEqual(bare, after) {
		return report.ChangeEcho
	}
	return report.ChangeFigures
}

// recordMoved records an Event about each node from which the set's runners are moved, a single time for each of its
// signs.
func (c *Controller) recordMoved(ctx context.Context, w *world) error {
	counts := map[departures.Departure]int{}
	for _, r := range w.plan.Moved {
		counts[w.departing[r.UID]]++
	}
	recorded := map[string]int{}
	for _, departure := range w.departing {
		if arrivals, known := w.Memory.recordedMoves[departure.Node]; known && arrivals == departure.Arrivals {
			recorded[departure.Node] = arrivals
		}
	}
	for departure, count := range counts {
		if _, known := recorded[departure.Node]; known {
			continue
		}
		recorded[departure.Node] = departure.Arrivals
		report.RecordEvent(ctx, c.options.Recorder, w.Object, nil,
			report.Normal("RunnersMoved", "MoveRunners", fmt.Sprintf(
				"node %s %s: its runners without a job (%d of this set) are removed with GitHub's consent, and others "+
					"take their places on other nodes; runners with a job finish it", departure.Node, departure.Signs,
				count)))
	}
	w.Memory.recordedMoves = recorded
	return nil
}

// kept returns the condition with the number of the set's runners that can't be deleted because finalizers of others
// keep them or their pods, and with the keepers of the first one. No event of a runner tells what becomes of its pod,
// so the set is looked at again. A condition that was never true is left out.
func (c *Controller) kept(ctx context.Context, w *world) []metav1.Condition {
	kept := &w.Memory.kept
	kept.Begin()
	blocked, first := 0, ""
	for _, r := range w.views {
		if !r.Deleting && !r.Ended() && (r.Up() || r.Reason == "") {
			continue // nothing of it is being deleted
		}
		kind, keepers := "EphemeralRunner", strings.Fields(r.Keepers)
		if pod := c.podOf(ctx, w.Object.Namespace, r); len(keepers) == 0 && pod != nil {
			w.Requeue.After(kube.KeptGrace)
			kind, keepers = "Pod", kube.PodKeepers(pod)
		}
		if len(keepers) == 0 {
			continue
		}
		if wait := kept.Look(r.UID+types.UID(kind), w.Now); wait > 0 {
			w.Requeue.After(wait)
			continue
		}
		if blocked++; blocked == 1 {
			first = kube.WhyKept(kind, types.NamespacedName{Namespace: w.Object.Namespace, Name: r.Name}, keepers)
		}
	}
	if blocked > 1 {
		first = fmt.Sprintf("%d runners can't be deleted; the first: %s", blocked, first)
	}
	switch {
	case blocked > 0:
		return []metav1.Condition{report.True(v1alpha1.ConditionDeletionBlocked, v1alpha1.ReasonForeignFinalizers,
			first)}
	case meta.FindStatusCondition(w.Object.Status.Conditions, v1alpha1.ConditionDeletionBlocked) != nil:
		return []metav1.Condition{report.False(v1alpha1.ConditionDeletionBlocked, "NothingKept",
			"no runner is kept by finalizers of others")}
	}
	return nil
}

// permitted returns the condition that says which permission feedback lacks, none if none ever was missing.
func (w *world) permitted() []metav1.Condition {
	refused, known, until := w.Memory.checks.permissions.Refusal(*cmp.Or(w.origin.Spec.Feedback, &v1alpha1.Feedback{}),
		w.Now)
	before := meta.FindStatusCondition(w.Object.Status.Conditions, v1alpha1.ConditionFeedbackPermitted)
	if refused != "" || before != nil {
		w.RequeueAt(until)
	}
	switch {
	case refused != "":
		return []metav1.Condition{report.False(v1alpha1.ConditionFeedbackPermitted, v1alpha1.ReasonPermissionMissing,
			refused+
				"; give the App or token the permission (an owner of the organization must accept it) and the "+
				"repository, if it is not archived, or remove the value")}
	case before != nil && known:
		return []metav1.Condition{report.True(v1alpha1.ConditionFeedbackPermitted, "Permitted",
			"GitHub refuses nothing that feedback asks for")}
	}
	return nil
}

// podOf returns a runner's pod as the cache has it, nil if there is none.
func (c *Controller) podOf(ctx context.Context, namespace string, r *roster.Runner) *corev1.Pod {
	pod := &corev1.Pod{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: r.Name}, pod,
		client.UnsafeDisableDeepCopy)
	if owner := metav1.GetControllerOfNoCopy(pod); err != nil || owner == nil || owner.UID != r.UID {
		return nil
	}
	return pod
}

// recordUnknownJobs records an Event about jobs that ended without success on runners that don't exist, if the listener
// has reported another one.
func (c *Controller) recordUnknownJobs(ctx context.Context, w *world) error {
	listener := w.Object.Status.Listener
	if listener == nil || listener.UnknownRunnerJobs == nil {
		return nil
	}
	jobs := listener.UnknownRunnerJobs
	if !jobs.LastAt.After(w.Memory.recordedJobsAt) || w.Now.Sub(jobs.LastAt.Time) > unknownJobsAge {
		return nil
	}
	w.Memory.recordedJobsAt = jobs.LastAt.Time
	report.RecordEvent(ctx, c.options.Recorder, w.Object, nil,
		report.Warning("UnknownRunnerJob", "ReportJobs", fmt.Sprintf(
			"%d jobs since the listener started have ended without success on runners that don't exist here; the "+
				"last: %s; if the cluster was restored from a backup, or the runner was deleted by force, the job "+
				"was lost with it: run it again on GitHub",
			jobs.Count, jobs.Last)))
	return nil
}

// recordEvents records an Event for each condition that became true or false between two states of a set.
func (c *Controller) recordEvents(ctx context.Context, before, after *v1alpha1.EphemeralRunnerSet) {
	for _, conditionType := range []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionRunnerOutdated,
		v1alpha1.ConditionStatisticsDoubtful} {
		was := meta.IsStatusConditionTrue(before.Status.Conditions, conditionType)
		now := meta.FindStatusCondition(after.Status.Conditions, conditionType)
		switch is := now != nil && now.Status == metav1.ConditionTrue; {
		case is && !was:
			report.RecordEvent(ctx, c.options.Recorder, after, nil,
				report.Warning(conditionType, "ScaleRunners", now.Message))
		case was && !is:
			report.RecordEvent(ctx, c.options.Recorder, after, nil,
				report.Normal(now.Reason, "ScaleRunners", now.Message))
		}
	}
}

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

// publishStates publishes the number of runners in each state. A state that had a runner and has none now shows 0.
func (m *memory) publishStates(runners []*roster.Runner) {
	counts := map[roster.State]int{{Name: roster.Pending}: 0, {Name: roster.Idle}: 0, {Name: roster.Busy}: 0,
		{Name: roster.Finishing}: 0}
	for state := range m.published {
		counts[state] = 0
	}
	for _, r := range runners {
		counts[roster.StateOf(r)]++
	}
	for state, count := range counts {
		runnersByState.WithLabelValues(m.scaleSet.Name, m.scaleSet.Namespace, state.Name, state.Reason).Set(float64(count))
	}
	m.published = counts
}

// seriesLabels are the values of the labels of the series that count runners the way ARC does.
type seriesLabels [5]string

// publishCounts publishes the counts in the set's status. Series with an earlier address would keep their last value
// forever, so it deletes them first. It also does so for a set that is new here, because it may replace a set that had
// other labels.
func (m *memory) publishCounts(set *v1alpha1.EphemeralRunnerSet, drained bool) {
	scaleSet := m.scaleSet
	labels := seriesLabels{
		scaleSet.Name, scaleSet.Namespace,
		set.Labels[v1alpha1.LabelRepository], set.Labels[v1alpha1.LabelOrganization],
		set.Labels[v1alpha1.LabelEnterprise],
	}
	for vector, count := range map[*prometheus.GaugeVec]int{
		pendingRunners: set.Status.PendingEphemeralRunners, runningRunners: set.Status.RunningEphemeralRunners,
		failedRunners: set.Status.FailedEphemeralRunners,
	} {
		if m.labels != labels {
			vector.DeletePartialMatch(prometheus.Labels{"name": scaleSet.Name, "namespace": scaleSet.Namespace})
		}
		vector.WithLabelValues(labels[:]...).Set(float64(count))
	}
	if most := set.AdvertisedCapacity(drained); most != nil {
		advertisedCapacity.WithLabelValues(scaleSet.Name, scaleSet.Namespace).Set(float64(*most))
	} else {
		advertisedCapacity.DeleteLabelValues(scaleSet.Name, scaleSet.Namespace)
	}
	m.labels = labels
}
