package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EphemeralRunnerSetSpec has two writers: the listener writes replicas, patchID, assignedJobs and canceledJobs in one patch, the
// manager all other fields.
type EphemeralRunnerSetSpec struct {
	// Desired number of runners: one per assigned job and the idle ones on top, at most maxRunners.
	// +optional
	// +kubebuilder:default=0
	Replicas int `json:"replicas,omitempty"`
	// Grows with every evaluation of the listener. It only says which of two values is newer; it is not a command.
	// +optional
	PatchID int `json:"patchID"`
	// Jobs that GitHub had assigned to the set at the time of patchID, including those already running. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	AssignedJobs int `json:"assignedJobs,omitempty"`
	// Jobs that ended cancelled before a runner had taken them, since the set exists. So many runners that end idle, hang
	// or are too many after that are nobody's fault. Not in ARC.
	// +optional
	CanceledJobs int `json:"canceledJobs,omitempty"`
	// Maximum number of runners at a time. Absent means no limit. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRunners *int `json:"maxRunners,omitempty"`
	// How many runners that failed without a job are kept. Default 3. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailedHistoryLimit *int `json:"failedHistoryLimit,omitempty"`
	// Spec of new runners.
	// +optional
	EphemeralRunnerSpec EphemeralRunnerSpec `json:"ephemeralRunnerSpec,omitempty"`
	// Metadata to add to new runners.
	// +optional
	EphemeralRunnerMetadata *ResourceMeta `json:"ephemeralRunnerMetadata,omitempty"`
}

// EphemeralRunnerSetPhase sums up the state in one word.
type EphemeralRunnerSetPhase string

// Phases of an EphemeralRunnerSet.
const (
	EphemeralRunnerSetPhaseRunning  EphemeralRunnerSetPhase = "Running"
	EphemeralRunnerSetPhaseOutdated EphemeralRunnerSetPhase = "Outdated"
)

// EphemeralRunnerSetStatus counts runners and reports the listener's state. The listener writes the field listener, the
// manager all others.
type EphemeralRunnerSetStatus struct {
	// Runners that exist: pending, running and failed.
	// +optional
	// +kubebuilder:default=0
	CurrentReplicas int `json:"currentReplicas"`
	// Runners whose container is not running yet.
	// +optional
	// +kubebuilder:default=0
	PendingEphemeralRunners int `json:"pendingEphemeralRunners"`
	// Runners whose container is running, with and without a job.
	// +optional
	// +kubebuilder:default=0
	RunningEphemeralRunners int `json:"runningEphemeralRunners"`
	// Failed runners that are kept for inspection.
	// +optional
	// +kubebuilder:default=0
	FailedEphemeralRunners int `json:"failedEphemeralRunners"`
	// Running runners that have a job. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	BusyRunners int `json:"busyRunners,omitempty"`
	// Jobs that were lost since the AutoscalingRunnerSet exists: their pods ended before GitHub had a result. Not in
	// ARC.
	// +optional
	LostJobs int `json:"lostJobs,omitempty"`
	// UIDs of the existing runners whose lost jobs lostJobs includes, so that each is counted a single time. Not in
	// ARC.
	// +optional
	// +listType=set
	LostRunners []types.UID `json:"lostRunners,omitempty"`
	// Running or Outdated.
	// +optional
	Phase EphemeralRunnerSetPhase `json:"phase,omitempty"`
	// Number of runners for which the listener may accept jobs; absent means maxRunners. Set with capacity.mode
	// Placement, and while the set can't run as many as maxRunners, so that GitHub assigns jobs to sets that can. The
	// listener announces at least one more than runs. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Capacity *int `json:"capacity,omitempty"`
	// What capacity.mode Placement has found out about the cluster. Not in ARC.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// Number of assigned jobs that probably don't exist, because they have waited while runners were idle; no runners
	// are created for them. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DoubtedJobs int `json:"doubtedJobs,omitempty"`
	// Claims of the scale set's volumeClaimTemplates. Absent for a set that has none. Not in ARC.
	// +optional
	VolumeClaims *VolumeClaimCounts `json:"volumeClaims,omitempty"`
	// Generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Check runs that the set keeps on commits. Not in ARC.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Checks []CheckRecord `json:"checks,omitempty"`
	// State of the listener as it last reported it.
	// +optional
	Listener *ListenerStatus `json:"listener,omitempty"`
	// Conditions of the object, each with reason and message.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ListenerState is what a listener is doing.
type ListenerState string

// States of a listener.
const (
	// ListenerStateStarting: there is no session yet, and no failure either.
	ListenerStateStarting ListenerState = "Starting"
	// ListenerStateListening: the listener has a session, and its last poll succeeded.
	ListenerStateListening ListenerState = "Listening"
	// ListenerStateRetrying: calls fail and are retried; reason and message name the calls and the cause.
	ListenerStateRetrying ListenerState = "Retrying"
	// ListenerStateConflict: another client holds the set's only session.
	ListenerStateConflict ListenerState = "SessionConflict"
	// ListenerStateClosed: maxRunners is 0, so there is no session: one would have to announce that number, and GitHub
	// would never offer again what is queued meanwhile.
	ListenerStateClosed ListenerState = "Closed"
	// ListenerStateStopped: the listener was asked to stop, and has stopped.
	ListenerStateStopped ListenerState = "Stopped"
)

// ListenerStatus is the state that a listener reports. It is written only when it changes.
type ListenerStatus struct {
	// Starting, Listening, Retrying, SessionConflict, Closed or Stopped.
	// +optional
	State ListenerState `json:"state,omitempty"`
	// One word for the cause, such as Unauthorized or RateLimited.
	// +optional
	Reason string `json:"reason,omitempty"`
	// The cause as text: what failed, why, and what happens next.
	// +optional
	Message string `json:"message,omitempty"`
	// When this state began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Registrations of the scale set on GitHub that are offline and that no runner accounts for, as GitHub's figures
	// have shown for three minutes: those of runners that were created after the backup from which the cluster was
	// restored. The manager removes them. 0 or absent if there are none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StrayRegistrations int `json:"strayRegistrations,omitempty"`
	// Jobs that ended without success on runners that do not exist here, as GitHub reports. Absent if there was none
	// since the listener started.
	// +optional
	UnknownRunnerJobs *UnknownRunnerJobs `json:"unknownRunnerJobs,omitempty"`
	// The oldest jobs that have waited for a runner for longer than feedback.checkAfter, if feedback.checks is set.
	// Jobs that were assigned before the listener started are missing, unless they were listed already.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Waiting []WaitingJob `json:"waiting,omitempty"`
}

// WaitingJob is a job that waits for a runner.
type WaitingJob struct {
	// OWNER/REPO of the workflow run.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Repository string `json:"repository,omitempty"`
	// The workflow run.
	RunID int64 `json:"runID"`
	// GitHub's word for the job in messages to runners; its REST API has another.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	JobID string `json:"jobID,omitempty"`
	// The name that the workflow's author gave it, cut.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// What started the workflow run, such as push.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Event string `json:"event,omitempty"`
	// When GitHub queued it.
	// +optional
	QueuedAt *metav1.Time `json:"queuedAt,omitempty"`
	// When GitHub assigned it to the scale set.
	AssignedAt metav1.Time `json:"assignedAt"`
}

// UnknownRunnerJobs are jobs that ended without success on runners that do not exist. They were lost with their runners
// if these were created after the backup from which the cluster was restored.
type UnknownRunnerJobs struct {
	// Number of such jobs since the listener started.
	// +kubebuilder:validation:Minimum=1
	Count int `json:"count"`
	// The last of them: its name, repository, run, result and runner.
	// +kubebuilder:validation:MaxLength=4096
	Last string `json:"last"`
	// When GitHub reported it.
	LastAt metav1.Time `json:"lastAt"`
}

// EphemeralRunnerSet keeps as many runners as its listener asks for.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ers,categories=actions
// +kubebuilder:printcolumn:name="DesiredReplicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="CurrentReplicas",type=integer,JSONPath=`.status.currentReplicas`
// +kubebuilder:printcolumn:name="Assigned Jobs",type=integer,JSONPath=`.spec.assignedJobs`
// +kubebuilder:printcolumn:name="Pending Runners",type=integer,JSONPath=`.status.pendingEphemeralRunners`
// +kubebuilder:printcolumn:name="Running Runners",type=integer,JSONPath=`.status.runningEphemeralRunners`
// +kubebuilder:printcolumn:name="Failed Runners",type=integer,JSONPath=`.status.failedEphemeralRunners`
// +kubebuilder:printcolumn:name="Busy",type=integer,JSONPath=`.status.busyRunners`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Listener",type=string,JSONPath=`.status.listener.state`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EphemeralRunnerSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EphemeralRunnerSetSpec `json:"spec,omitempty"`
	// Observed state. Until the manager has reconciled the object, observedGeneration is -1, which kstatus treats as in
	// progress.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status EphemeralRunnerSetStatus `json:"status,omitempty"`
}

// EphemeralRunnerSetList is a list of EphemeralRunnerSets.
// +kubebuilder:object:root=true
type EphemeralRunnerSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralRunnerSet `json:"items"`
}
