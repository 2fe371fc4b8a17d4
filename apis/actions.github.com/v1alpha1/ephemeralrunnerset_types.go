package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EphemeralRunnerSetSpec has two writers: the listener writes replicas, patchID, assignedJobs and canceledJobs in one patch, the
// manager all other fields.
type EphemeralRunnerSetSpec struct {
	// Number of runners that the listener asks for: one per assigned job and the idle ones on top, at most maxRunners. The
	// manager decides, see status.desired: it follows this number only while no listener of Harrier serves the set.
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
	// Number of runners that there are to be: by the assigned jobs that are believed to exist and the numbers of runners
	// that are in force. Absent until the manager has decided it. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Desired *int `json:"desired,omitempty"`
	// What keeps the set from running more jobs, in one word: the reason of the condition that says more, or
	// MaxRunnersReached, MaxRunnersZero or Drained. Absent if nothing does. Not in ARC.
	// +optional
	LimitReason string `json:"limitReason,omitempty"`
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
	// The last lost jobs that lostJobs includes, the newest last; of those that were lost in one second ten. Each has an
	// Event JobLost. Not in ARC.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	LastLosses []LostJob `json:"lastLosses,omitempty"`
	// Lost jobs about which it is not decided yet whether they run again, with feedback.rerunLostJobs. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RerunsWaiting int `json:"rerunsWaiting,omitempty"`
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
	// The template whose runners have had a job, so that more than a few of an image whose version nothing names may
	// start at once. Not in ARC.
	// +optional
	ProvenTemplate *ProvenTemplate `json:"provenTemplate,omitempty"`
	// Claims of the scale set's volumeClaimTemplates. Absent for a set that has none. Not in ARC.
	// +optional
	VolumeClaims *VolumeClaimCounts `json:"volumeClaims,omitempty"`
	// The snapshot that new claims are copies of, in mode Snapshot; absent if there is none.
	// +optional
	NewestSnapshot *VolumeSnapshotStatus `json:"newestSnapshot,omitempty"`
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

// ProvenTemplate says that runners of a template can work.
type ProvenTemplate struct {
	// Hash of the runner spec.
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`
	// When a runner that has had a job was created.
	At metav1.Time `json:"at"`
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
	// The oldest jobs that have waited for a runner for five seconds or more, as of half a minute ago at most. Jobs that
	// were assigned before the listener started are missing, unless they were listed already.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Waiting []WaitingJob `json:"waiting,omitempty"`
	// How many jobs GitHub keeps because the set has no room, by its own figure; 0 or absent while the set has room, or if
	// GitHub gives none. Nobody here knows these jobs by name.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableJobs int `json:"availableJobs,omitempty"`
	// Jobs that were cancelled in the last five minutes before a runner had them, as GitHub said; the newest of many. One
	// that GitHub assigns again is not among them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	GaveUp []UnstartedJob `json:"gaveUp,omitempty"`
}

// UnstartedJob is a job that ended before a runner had it.
type UnstartedJob struct {
	WaitingJob `json:",inline"`
	// When it ended.
	FinishedAt metav1.Time `json:"finishedAt"`
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
	// The workflow and its branch or tag: OWNER/REPOSITORY/PATH@REF.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WorkflowRef string `json:"workflowRef,omitempty"`
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

// Since returns since when the job waits.
func (j *WaitingJob) Since() time.Time {
	if j.QueuedAt != nil {
		return j.QueuedAt.Time
	}
	return j.AssignedAt.Time
}

// LostJob is a job whose pod ended before GitHub had a result.
type LostJob struct {
	// The runner on which it was lost.
	// +kubebuilder:validation:MaxLength=253
	Runner string `json:"runner"`
	// To what it was lost.
	// +kubebuilder:validation:MaxLength=64
	Cause LostCause `json:"cause"`
	// When it was counted.
	At metav1.Time `json:"at"`
	// Its name. This and what follows is empty if GitHub has not named it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Job string `json:"job,omitempty"`
	// OWNER/REPO of its workflow run.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Repository string `json:"repository,omitempty"`
	// Its workflow's file and branch.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WorkflowRef string `json:"workflowRef,omitempty"`
	// The workflow run.
	// +optional
	RunID int64 `json:"runID,omitempty"`
	// GitHub's word for it in messages to runners.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	JobID string `json:"jobID,omitempty"`
	// What ended the pod, cut.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
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

// EphemeralRunnerSet decides how many runners a scale set has, and keeps so many.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ers,categories=actions
// +kubebuilder:printcolumn:name="DesiredReplicas",type=integer,JSONPath=`.status.desired`
// +kubebuilder:printcolumn:name="CurrentReplicas",type=integer,JSONPath=`.status.currentReplicas`
// +kubebuilder:printcolumn:name="Why Not More",type=string,JSONPath=`.status.limitReason`
// +kubebuilder:printcolumn:name="Assigned Jobs",type=integer,JSONPath=`.spec.assignedJobs`
// +kubebuilder:printcolumn:name="Pending Runners",type=integer,JSONPath=`.status.pendingEphemeralRunners`,priority=1
// +kubebuilder:printcolumn:name="Running Runners",type=integer,JSONPath=`.status.runningEphemeralRunners`,priority=1
// +kubebuilder:printcolumn:name="Failed Runners",type=integer,JSONPath=`.status.failedEphemeralRunners`,priority=1
// +kubebuilder:printcolumn:name="Busy",type=integer,JSONPath=`.status.busyRunners`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,priority=1
// +kubebuilder:printcolumn:name="Listener",type=string,JSONPath=`.status.listener.state`,priority=1
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
