package conditions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
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

// Findings is what a pass has found out about a set. A zero field was not found out, or not yet.
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
	// Records are the rest of the set's journal.
	Records journal.Records
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
	return f.Registration != nil && f.HasValidURL() && journal.SameURL(f.Registration.URL, f.Set.Spec.GitHubConfigUrl)
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

// Journal returns what the status is to say of the set's scale sets.
func (f *Findings) Journal() []v1alpha1.RegistrationRecord {
	return f.Records.WithPresent(f.Set, f.Confirmed(), f.ObservedAt)
}

// Moved reports whether the registration or the journal differs from the one in the status.
func (f *Findings) Moved() bool {
	status := &f.Set.Status
	return (!f.Unconfirmed && !equality.Semantic.DeepEqual(f.Registration, status.Registration)) ||
		!equality.Semantic.DeepEqual(f.Journal(), status.Registrations)
}

// DesiredRunners returns the number of runners that there are to be, nil while the runner set, which alone decides it,
// has not.
func (f *Findings) DesiredRunners() *int {
	if current := f.RunnerSet(); current != nil {
		return current.Status.Desired
	}
	return nil
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
