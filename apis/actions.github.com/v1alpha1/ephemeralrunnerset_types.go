package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EphemeralRunnerSetSpec is written by two hands: replicas, patchID and assignedJobs by the listener in one patch, the
// rest by the manager.
type EphemeralRunnerSetSpec struct {
	// Runners there should be: those for assigned jobs and the idle ones on top, capped by maxRunners.
	// +optional
	// +kubebuilder:default=0
	Replicas int `json:"replicas,omitempty"`
	// Grows with every evaluation of the listener: it says "newer than", it is no command.
	// +optional
	PatchID int `json:"patchID"`
	// Jobs GitHub has assigned to the set, running ones included, at the time of patchID. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	AssignedJobs int `json:"assignedJobs,omitempty"`
	// Most runners at a time. Absent means no limit. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxRunners *int `json:"maxRunners,omitempty"`
	// How many runners that failed without a job are kept. Default 3. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailedHistoryLimit *int `json:"failedHistoryLimit,omitempty"`
	// Runners are made from this.
	// +optional
	EphemeralRunnerSpec EphemeralRunnerSpec `json:"ephemeralRunnerSpec,omitempty"`
	// Added to new runners.
	// +optional
	EphemeralRunnerMetadata *ResourceMeta `json:"ephemeralRunnerMetadata,omitempty"`
}

// EphemeralRunnerSetPhase sums the state up in a word.
type EphemeralRunnerSetPhase string

// Phases of an EphemeralRunnerSet.
const (
	EphemeralRunnerSetPhaseRunning  EphemeralRunnerSetPhase = "Running"
	EphemeralRunnerSetPhaseOutdated EphemeralRunnerSetPhase = "Outdated"
)

// EphemeralRunnerSetStatus counts runners and reports the listener's state. The listener writes the field listener, the
// manager everything else.
type EphemeralRunnerSetStatus struct {
	// Runners that exist: pending, running and failed.
	// +optional
	// +kubebuilder:default=0
	CurrentReplicas int `json:"currentReplicas"`
	// Runners whose container does not run yet.
	// +optional
	// +kubebuilder:default=0
	PendingEphemeralRunners int `json:"pendingEphemeralRunners"`
	// Runners whose container runs, with and without a job.
	// +optional
	// +kubebuilder:default=0
	RunningEphemeralRunners int `json:"runningEphemeralRunners"`
	// Runners that failed and are kept to look at.
	// +optional
	// +kubebuilder:default=0
	FailedEphemeralRunners int `json:"failedEphemeralRunners"`
	// Of the running ones, those with a job. Not in ARC.
	// +optional
	// +kubebuilder:default=0
	BusyRunners int `json:"busyRunners,omitempty"`
	// Running or Outdated.
	// +optional
	Phase EphemeralRunnerSetPhase `json:"phase,omitempty"`
	// How many runners the listener may let GitHub assign jobs to; absent means maxRunners. Set while the
	// set can't run them all, so that jobs go to sets that can. Not in ARC.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Capacity *int `json:"capacity,omitempty"`
	// Generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// What the listener last said of itself.
	// +optional
	Listener *ListenerStatus `json:"listener,omitempty"`
	// What is as it should be and what is not, each with reason and message.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ListenerState is what a listener is doing.
type ListenerState string

// States of a listener.
const (
	// ListenerStateStarting: no session yet, no trouble yet.
	ListenerStateStarting ListenerState = "Starting"
	// ListenerStateListening: a session is held and the last poll was good.
	ListenerStateListening ListenerState = "Listening"
	// ListenerStateRetrying: calls fail and are repeated; reason and message say which and why.
	ListenerStateRetrying ListenerState = "Retrying"
	// ListenerStateConflict: another client holds the set's only session.
	ListenerStateConflict ListenerState = "SessionConflict"
	// ListenerStateStopped: the listener ended on request.
	ListenerStateStopped ListenerState = "Stopped"
)

// ListenerStatus is a listener's own account of its state. It is written on change only.
type ListenerStatus struct {
	// Starting, Listening, Retrying, SessionConflict or Stopped.
	// +optional
	State ListenerState `json:"state,omitempty"`
	// One word for the cause, such as Unauthorized or RateLimited.
	// +optional
	Reason string `json:"reason,omitempty"`
	// The cause for people: what failed, why and what comes next.
	// +optional
	Message string `json:"message,omitempty"`
	// When this state began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
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
	// What became of it. Until the manager has looked, observedGeneration is -1, which kstatus takes for in progress.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status EphemeralRunnerSetStatus `json:"status,omitempty"`
}

// EphemeralRunnerSetList is a list of them.
// +kubebuilder:object:root=true
type EphemeralRunnerSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralRunnerSet `json:"items"`
}
