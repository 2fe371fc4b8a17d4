// Package conditions turns what a pass has found out about a set into the set's status: its conditions, their summary
// for kstatus, the Events about their changes, and the metrics of them. It reads nothing and writes nothing but
// metrics: the controller fills in the Findings, and writes what becomes of them.
//
// A new condition is a function in registration.go or objects.go, a line in conditions, and one in announcements.
package conditions

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/demand"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/pool"
)

// Reasons of conditions.
const (
	reasonReady                = "Ready"
	reasonRegistered           = "Registered"
	reasonRegistering          = "Registering"
	reasonAccepted             = "Accepted"
	reasonRead                 = "Read"
	reasonLabelsAccepted       = "LabelsAccepted"
	reasonListening            = "Listening"
	reasonListenerStarting     = "ListenerStarting"
	reasonWaitingForScaleSet   = "WaitingForScaleSet"
	reasonWaitingForRunnerSets = "WaitingForRunnerSets"
	reasonChecking             = "CheckingCredentials"
	reasonVersionMatches       = "VersionMatches"
	reasonVersionForeign       = "VersionDiffers"
	reasonNoVersion            = "NoVersionLabel"
)

// Findings has all that a pass has found out about a set. A zero field was not found out, or not yet.
type Findings struct {
	Set *v1alpha1.AutoscalingRunnerSet
	// ObservedAt is the time at which the pass began.
	ObservedAt time.Time
	// Numbers are those in force.
	Numbers effective.Numbers
	// Found are the set's objects in the cluster.
	children.Found
	// Awaited says which object is kept by finalizers that the manager doesn't serve, and what to do about it, "" if
	// none is. Blocked says the same after that has lasted.
	Awaited, Blocked string
	// Accepted is the part of the spec's wishes for the listener that the policy lets through.
	Accepted listenertemplate.Accepted
	// TakenNames are the names that a new listener could have, if other listeners have all of them.
	TakenNames []string

	// Registration is the scale set on GitHub, nil while it is not known to be registered.
	Registration *v1alpha1.ScaleSetRegistration
	// Unconfirmed is set while only ARC's annotation names the registration and GitHub has not been asked about it.
	Unconfirmed bool
	// Records are the rest of the set's ledger.
	Records ledger.Records
	// Unanswered says why GitHub has not deleted the scale set of a set that is being deleted, nil until it has been
	// asked.
	Unanswered error
	// Searching is set while the deletion waits for GitHub to say whether it has a scale set that was never recorded.
	Searching bool
	// Creating is set while the deletion waits for the answer to a call that may create the scale set.
	Creating bool
	Desired  scaleset.Desired
	// Cause says why GitHub can't be asked at all: an invalid address or invalid credentials. Only a user can remove
	// it.
	Cause error
	// RequestHash identifies the request to GitHub. It is empty if there is a Cause.
	RequestHash string
	// CredentialsKnown is set if these are the credentials that GitHub accepted last, and ScaleSetKnown if Desired is
	// the scale set that it agreed to last.
	CredentialsKnown, ScaleSetKnown bool
	// LastSync is the last call to GitHub. Asked is set if it is still running or was for the present request.
	LastSync pool.Call[scaleset.Result]
	Asked    bool

	// RunnerSpecHash identifies the runner spec that the EphemeralRunnerSet has to have, empty if the pass did not get
	// that far.
	RunnerSpecHash string
	// Template says whether a runner's pod would be admitted, as far as that is known.
	Template podtemplate.Verdict
	// RunnerVersion is what GitHub said of versions of its runner, and VersionExpires the condition about it, nil if the
	// pass did not look or there is nothing to say.
	RunnerVersion  *v1alpha1.RunnerVersionStatus
	VersionExpires *metav1.Condition
	// Budgets are the PodDisruptionBudgets of the set's namespace, nil if the pass did not look.
	Budgets *disruptionbudgets.Budgets
	// Failure is the error of the step that failed. CutShort is set when steps were skipped, even if only because the
	// cache was behind.
	Failure  error
	CutShort bool
}

// withStatus returns a condition if it has the status, else nil.
func withStatus(conditions []metav1.Condition, conditionType string, status metav1.ConditionStatus) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, conditionType); c != nil && c.Status == status {
		return c
	}
	return nil
}

// Deleting reports whether the set is being deleted.
func (f *Findings) Deleting() bool { return f.Set.DeletionTimestamp != nil }

// HasValidURL reports whether the address is valid. With invalid credentials the objects are still kept as the spec
// wants them; with an invalid address they can't be.
func (f *Findings) HasValidURL() bool { return f.Desired.URL != "" }

// RegisteredHere reports whether GitHub has answered us or ARC at the address in the spec. Until then runners and
// listener have no scale set, and after a change of the address the present ones continue until the new address has
// proven itself.
func (f *Findings) RegisteredHere() bool {
	return f.Registration != nil && f.HasValidURL() && ledger.SameURL(f.Registration.URL, f.Set.Spec.GitHubConfigUrl)
}

// Answered reports whether GitHub has answered the request that the present spec and credentials make.
func (f *Findings) Answered() bool { return f.Asked && !f.LastSync.Running() }

// Confirmed returns the registration, nil while only ARC's annotation names it.
func (f *Findings) Confirmed() *v1alpha1.ScaleSetRegistration {
	if f.Unconfirmed {
		return nil
	}
	return f.Registration
}

// Ledger returns what the status is to say of the set's scale sets.
func (f *Findings) Ledger() []v1alpha1.RegistrationRecord {
	return f.Records.WithPresent(f.Set, f.Confirmed(), f.ObservedAt)
}

// Moved reports whether the registration or the ledger differs from the one in the status.
func (f *Findings) Moved() bool {
	status := &f.Set.Status
	return (!f.Unconfirmed && !equality.Semantic.DeepEqual(f.Registration, status.Registration)) ||
		!equality.Semantic.DeepEqual(f.Ledger(), status.Registrations)
}

// Status returns the status with what the pass has found out. Everything else stays as it was.
func (f *Findings) Status(version string) v1alpha1.AutoscalingRunnerSetStatus {
	status := *f.Set.Status.DeepCopy()
	if !f.Unconfirmed {
		status.Registration = f.Registration
	}
	status.Registrations = f.Ledger()
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
	status.AssignedJobs, status.DesiredRunners = 0, f.DesiredRunners()
	if current := f.RunnerSet(); current != nil {
		status.AssignedJobs = current.Spec.AssignedJobs
		status.VolumeClaims = current.Status.VolumeClaims
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
	report.SetConditions(&status.Conditions, f.Set.Generation, f.ObservedAt, f.summary(status.Conditions)...)
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

// DesiredRunners returns the number of runners that there are to be. The runner set works it out from the same figures;
// it isn't asked, so that the number changes with the jobs, in one write.
func (f *Findings) DesiredRunners() int {
	current := f.RunnerSet()
	if current == nil {
		return 0
	}
	return demand.Asked{
		Assigned: current.Spec.AssignedJobs, Running: current.Status.BusyRunners, Min: f.Numbers.Min,
		Max:      f.Numbers.Max,
		Headroom: effective.Headroom(&f.Set.Spec.PlannedCapacity), Drained: f.Numbers.Drained,
		Unserved: !kube.HasServer(current), Replicas: current.Spec.Replicas,
	}.Wanted()
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
	for _, optional := range []*metav1.Condition{
		credentialsCondition(f), registeredCondition(f), labelsCondition(f),
		runnersCondition(f, v1alpha1.ConditionDegraded), runnersCondition(f, v1alpha1.ConditionRunnerOutdated),
		runnersCondition(f, v1alpha1.ConditionQuotaExceeded), runnersCondition(f, v1alpha1.ConditionRunnersPending),
		runnersCondition(f, v1alpha1.ConditionStatisticsDoubtful),
		runnersCondition(f, v1alpha1.ConditionVolumeClaimsReady),
		runnersCondition(f, v1alpha1.ConditionCapacityLimited),
		runnersCondition(f, v1alpha1.ConditionFeedbackPermitted),
		runnersCondition(f, v1alpha1.ConditionStartsLimited), drainedCondition(f),
		disruptionbudgets.Condition(f.Set, f.Budgets, f.ObservedAt), blockedCondition(f),
		f.Template.Condition, schedulesCondition(f), f.VersionExpires,
	} {
		if optional != nil {
			known = append(known, *optional)
		}
	}
	return known
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

// LostJobs returns the highest count there is: each runner set goes on from that of the set.
func (f *Findings) LostJobs() int {
	lost := f.Set.Status.LostJobs
	for i := range f.RunnerSets {
		lost = max(lost, f.RunnerSets[i].Status.LostJobs)
	}
	return lost
}

// currentRunners includes the runners of older EphemeralRunnerSets, because they occupy nodes like the others.
func currentRunners(runnerSets []v1alpha1.EphemeralRunnerSet) int {
	current := 0
	for _, runnerSet := range runnerSets {
		current += runnerSet.Status.CurrentReplicas
	}
	return current
}
