// Package conditions turns what a pass has found out about a set into the set's status: its conditions, their summary
// for kstatus, the Events about their changes, and the metrics of them. It reads nothing and writes nothing but
// metrics: the controller fills in the Findings, and writes what becomes of them.
//
// A new condition is a function in registration.go, objects.go or numbers.go, a line in conditions, and one in
// announcements.
package conditions

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// NextStatus returns the status with what the pass has found out. Everything else stays as it was.
func (f *Findings) NextStatus(version string) v1alpha1.AutoscalingRunnerSetStatus {
	status := *f.Set.Status.DeepCopy()
	if !f.Unconfirmed {
		status.Registration = f.Registration
	}
	status.Registrations = f.Journal()
	if f.RunnerSpecHash != "" && f.Template.Reached {
		status.RunnerSpecHash = f.RunnerSpecHash // otherwise it may not have been written
	}
	if f.RunnerVersion != nil {
		status.RunnerVersion = f.RunnerVersion
	}
	status.ObservedGeneration = f.Set.Generation
	status.CurrentRunners = currentRunners(f.RunnerSets)
	status.PendingEphemeralRunners, status.RunningEphemeralRunners = 0, 0
	status.FailedEphemeralRunners, status.BusyRunners = 0, 0
	status.AssignedJobs, status.AvailableJobs, status.DesiredRunners = 0, 0, 0
	if desired := f.DesiredRunners(); desired != nil {
		status.DesiredRunners = *desired
	}
	if current := f.RunnerSet(); current != nil {
		status.AssignedJobs = current.Spec.AssignedJobs
		status.VolumeClaims = current.Status.VolumeClaims
		status.NewestSnapshot = current.Status.NewestSnapshot
		if listener := current.Status.Listener; listener != nil {
			status.AvailableJobs = listener.AvailableJobs
		}
	}
	for _, runnerSet := range f.RunnerSets {
		status.PendingEphemeralRunners += runnerSet.Status.PendingEphemeralRunners
		status.RunningEphemeralRunners += runnerSet.Status.RunningEphemeralRunners
		status.FailedEphemeralRunners += runnerSet.Status.FailedEphemeralRunners
		status.BusyRunners += runnerSet.Status.BusyRunners
	}
	f.describeRoom(&status)
	status.IdleRunners = max(0, status.RunningEphemeralRunners-status.BusyRunners)
	status.EffectiveCapacity = f.inForce()
	for _, condition := range f.conditions(version) {
		report.SetConditions(&status.Conditions, f.Set.Generation, f.ObservedAt, condition)
	}
	f.markReopened(status.Conditions)
	report.SetConditions(&status.Conditions, f.Set.Generation, f.ObservedAt, f.summarize(&status)...)
	switch { // the column that ARC has; conditions say more
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionRunnerOutdated):
		status.Phase = v1alpha1.AutoscalingRunnerSetPhaseOutdated
	// all objects exist, whether they work or not
	case f.Registration != nil && f.HasRunnerSet() && f.Listener() != nil:
		status.Phase = v1alpha1.AutoscalingRunnerSetPhaseRunning
	default:
		status.Phase = v1alpha1.AutoscalingRunnerSetPhasePending
	}
	return status
}

// markReopened makes a session that is open again a transition of its condition: what GitHub has kept for it is waited
// for from then on (volumeclaims.Returns).
func (f *Findings) markReopened(now []metav1.Condition) {
	before := meta.FindStatusCondition(f.Set.Status.Conditions, v1alpha1.ConditionListenerReady)
	after := meta.FindStatusCondition(now, v1alpha1.ConditionListenerReady)
	if kube.SessionClosed(before) && !kube.SessionClosed(after) {
		after.LastTransitionTime = metav1.NewTime(f.ObservedAt)
	}
}

// inForce returns the numbers as the status has them.
func (f *Findings) inForce() v1alpha1.EffectiveCapacity {
	n := &f.Numbers
	capacity := v1alpha1.EffectiveCapacity{
		EffectiveMinRunners: n.Min,
		EffectiveMaxRunners: n.Limit(),
		ActiveSchedules:     slices.Clone(n.Open),
	}
	if !n.Until.IsZero() {
		capacity.EffectiveUntil = &metav1.Time{Time: n.Until}
	}
	return capacity
}

// conditions returns the conditions whose status the pass knows. The others keep their status, so that the check on
// GitHub every few minutes, or a failure of it, doesn't make them flicker.
func (f *Findings) conditions(version string) []metav1.Condition {
	known := []metav1.Condition{versionCondition(f.Set.Labels, version), templateCondition(f.Accepted.Refused),
		listenerCondition(f)}
	if current := f.RunnerSet(); current != nil {
		for _, c := range current.Status.Conditions {
			if slices.ContainsFunc(announcements, func(a announcement) bool {
				return a.ofRunners && a.conditionType == c.Type
			}) {
				known = append(known, c)
			}
		}
	}
	for _, optional := range []*metav1.Condition{
		credentialsCondition(f), registeredCondition(f), labelsCondition(f), drainedCondition(f),
		disruptionbudgets.Condition(f.Set, f.Budgets, f.ObservedAt), blockedCondition(f),
		f.Template.Condition, f.Template.JobPod, f.Template.Altered, schedulesCondition(f), f.VersionExpires,
	} {
		if optional != nil {
			known = append(known, *optional)
		}
	}
	return known
}

// describeRoom writes the number of jobs for which GitHub is told that there is room, and keeps what is known of the
// cluster for the next runner set.
func (f *Findings) describeRoom(status *v1alpha1.AutoscalingRunnerSetStatus) {
	status.AdvertisedCapacity = nil
	if !f.Set.Spec.PlacesJobs() {
		status.Placement = nil
	}
	if current := f.RunnerSet(); current != nil {
		status.AdvertisedCapacity = current.AdvertisedCapacity(f.Numbers.Drained)
		if current.Status.Placement != nil {
			status.Placement = current.Status.Placement.DeepCopy()
		}
	}
}

// blockedCondition returns nil if no object has ever been kept by finalizers of others.
func blockedCondition(f *Findings) *metav1.Condition {
	const conditionType = v1alpha1.ConditionDeletionBlocked
	switch {
	case f.Blocked != "":
		return new(report.True(conditionType, v1alpha1.ReasonForeignFinalizers, f.Blocked))
	case meta.FindStatusCondition(f.Set.Status.Conditions, conditionType) != nil:
		return new(report.False(conditionType, "NothingKept", "no object is kept by finalizers of others"))
	}
	return nil
}
