package snapshots

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

var (
	starts = setmetrics.Counter("snapshot_starts_total",
		"Runners that were created with claims in mode Snapshot, by what these are copies of (snapshot, empty).", "from")
	startAge = setmetrics.Histogram("snapshot_age_seconds",
		"Age of the snapshot that the claims of a new runner are copies of.",
		// minutes while jobs run, a weekend, a month
		[]float64{300, 900, 1800, 3600, 3 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 7 * 24 * 3600, 30 * 24 * 3600})
	newestAt = setmetrics.Gauge("newest_snapshot_timestamp_seconds",
		"When the snapshot was made that new claims are copies of, in mode Snapshot; no series while there is none.")
	failures = setmetrics.Counter("snapshot_failures_total",
		"How often the condition SnapshotsReady has become False, by its reason.", "cause")
)

// causes are the reasons of the condition while it is False.
var causes = []string{
	v1alpha1.ReasonSnapshotKindMissing, v1alpha1.ReasonSnapshotRefused, v1alpha1.ReasonSnapshotFailed,
	v1alpha1.ReasonSnapshotLate, v1alpha1.ReasonSnapshotTooLarge, v1alpha1.ReasonSnapshotNotCopied,
}

// series are those of one set.
type series struct {
	begun bool
	// cause is the reason that was counted last, empty while nothing fails.
	cause string
}

// begin makes the series: the rise from no series to 1 would be none to Prometheus.
func (s *series) begin(scaleSet types.NamespacedName) {
	if s.begun {
		return
	}
	s.begun = true
	for _, from := range []string{"snapshot", "empty"} {
		setmetrics.Begin(starts, scaleSet, from)
	}
	for _, cause := range causes {
		setmetrics.Begin(failures, scaleSet, cause)
	}
}

func (s *series) publish(
	scaleSet types.NamespacedName, newest *volumesnapshots.Version, trouble *volumesnapshots.Trouble,
) {
	s.begin(scaleSet)
	if newest == nil {
		newestAt.DeleteLabelValues(scaleSet.Name, scaleSet.Namespace)
	} else {
		newestAt.WithLabelValues(scaleSet.Name, scaleSet.Namespace).Set(float64(newest.CreatedAt.Unix()))
	}
	cause := ""
	if trouble != nil {
		cause = trouble.Reason
	}
	if cause != "" && cause != s.cause {
		failures.WithLabelValues(scaleSet.Name, scaleSet.Namespace, cause).Inc()
	}
	s.cause = cause
}

// Started counts a runner that was created with a lease.
func (s *Snapshots) Started(p *pass.Pass, lease volumeclaims.Lease) {
	if !p.Origin.Spec.OfSnapshots() || !volumeclaims.Named(lease.Claims) {
		return
	}
	m, from := s.memories.Of(p.Set.UID), "empty"
	m.series.begin(p.ScaleSet)
	if lease.Seed != "" {
		from = "snapshot"
		if d := m.decision; d != nil && d.Newest != nil && d.Newest.Suffix == lease.Seed {
			startAge.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace).Observe(p.Now.Sub(d.Newest.CreatedAt).Seconds())
		}
	}
	starts.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace, from).Inc()
}

// Describe writes into the status which snapshot new claims are copies of, and returns the condition that says what
// fails.
func (s *Snapshots) Describe(p *pass.Pass) []metav1.Condition {
	const conditionType = v1alpha1.ConditionSnapshotsReady
	status := &p.Set.Status
	if !p.Origin.Spec.OfSnapshots() {
		status.NewestSnapshot = nil
		if meta.FindStatusCondition(status.Conditions, conditionType) == nil {
			return nil
		}
		return []metav1.Condition{report.True(conditionType, "NoSnapshots", "volumeClaimPool.mode is not Snapshot")}
	}
	m := s.memories.Of(p.Set.UID)
	if m.missing == nil && m.decision == nil {
		return nil // it isn't known
	}
	var newest *volumesnapshots.Version
	if m.decision != nil {
		newest = m.decision.Newest
	}
	trouble := m.trouble()
	m.series.publish(p.ScaleSet, newest, trouble)
	if status.NewestSnapshot = nil; newest != nil {
		status.NewestSnapshot = newest.Status()
	}
	switch {
	case trouble != nil:
		return []metav1.Condition{report.False(conditionType, trouble.Reason, trouble.Message)}
	case newest == nil:
		trusted := p.Origin.Spec.EffectiveVolumeClaimPool().KeepAfter
		return []metav1.Condition{report.True(conditionType, "NoSnapshotYet", fmt.Sprintf(
			"there is no snapshot yet: runners start with empty claims until a job of %s has ended %s",
			strings.Join(trusted.Events, " or "), strings.Join(trusted.Results, " or ")))}
	}
	return []metav1.Condition{report.True(conditionType, "SnapshotReady", fmt.Sprintf(
		"runners start from the snapshot of %s, made after %s", newest.CreatedAt.UTC().Format(time.RFC3339),
		madeOf(status.NewestSnapshot.Job)))}
}

// trouble returns what fails, nil if nothing does.
func (m *memory) trouble() *volumesnapshots.Trouble {
	switch {
	case m.missing != nil:
		return m.missing
	case m.refused != nil:
		return m.refused
	}
	return m.decision.Trouble
}

// madeOf names a job.
func madeOf(job v1alpha1.SnapshotJob) string {
	text := fmt.Sprintf("a job of event %s that ended %s", job.Event, job.Result)
	if job.Repository != "" {
		text += fmt.Sprintf(" in %s, run %d", job.Repository, job.WorkflowRunID)
	}
	return text
}
