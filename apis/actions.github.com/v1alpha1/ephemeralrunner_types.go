package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EphemeralRunnerSpec describes one runner: where it registers, and the pod it runs in.
type EphemeralRunnerSpec struct {
	// Address of the repository, organization or enterprise that the runner serves.
	GitHubConfigUrl string `json:"githubConfigUrl"`
	// Name of the credential Secret in the same namespace, or of a secret in the vault.
	GitHubConfigSecret string `json:"githubConfigSecret"`
	// Additional certificate authorities for talking to GitHub.
	// +optional
	GitHubServerTLS *TLSConfig `json:"githubServerTLS,omitempty"`
	// Id of the scale set on GitHub.
	RunnerScaleSetID int `json:"runnerScaleSetId"`
	// Proxy for talking to GitHub.
	// +optional
	Proxy *ProxyConfig `json:"proxy,omitempty"`
	// Secret with keys http_proxy, https_proxy and no_proxy for the runner container.
	// +optional
	ProxySecretRef string `json:"proxySecretRef,omitempty"`
	// Vault that holds the credentials.
	// +optional
	VaultConfig *VaultConfig `json:"vaultConfig,omitempty"`
	// Metadata for the Secret with the runner's registration.
	// +optional
	EphemeralRunnerConfigSecretMetadata *ResourceMeta `json:"ephemeralRunnerConfigSecretMetadata,omitempty"`

	RunnerTimeouts `json:",inline"`

	// The runner's claims, by name of the template in volumeClaimTemplates of its set. The runner has them alone until
	// its pod has ended. An empty name stands for an emptyDir. Not in ARC.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	VolumeClaims map[string]string `json:"volumeClaims,omitempty"`

	// Metadata of the runner pod.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodMetadata metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec of the runner pod. Its schema is checked in the AutoscalingRunnerSet, where the user writes it.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodSpec corev1.PodSpec `json:"spec,omitempty"`
}

// EphemeralRunnerPhase is a stage in the life of a runner.
type EphemeralRunnerPhase string

// Phases of an EphemeralRunner. The empty phase means Pending.
const (
	EphemeralRunnerPhasePending   EphemeralRunnerPhase = "Pending"
	EphemeralRunnerPhaseRunning   EphemeralRunnerPhase = "Running"
	EphemeralRunnerPhaseSucceeded EphemeralRunnerPhase = "Succeeded"
	EphemeralRunnerPhaseFailed    EphemeralRunnerPhase = "Failed"
	// EphemeralRunnerPhaseOutdated: GitHub refuses the runner's version, as exit code 7 or the version itself tells.
	EphemeralRunnerPhaseOutdated EphemeralRunnerPhase = "Outdated"
)

// LostCause says, in one word, what the job of a runner was lost to. Empty means that no job was lost.
type LostCause string

// Causes of lost jobs.
const (
	// LostCauseEvicted: the pod was evicted, by the eviction API, as a node drain and autoscalers do, by a taint, or by
	// its kubelet, or deleted while its node was about to go away.
	LostCauseEvicted LostCause = "Evicted"
	// LostCauseNodeLost: the pod's node was shut down, no longer answers or is gone.
	LostCauseNodeLost LostCause = "NodeLost"
	// LostCausePreempted: the pod had to make room for one of higher priority.
	LostCausePreempted LostCause = "Preempted"
	// LostCauseOOMKilled: a container of the pod ran out of memory.
	LostCauseOOMKilled LostCause = "OOMKilled"
	// LostCausePodDeleted: somebody deleted the pod, by hand or with its namespace or owner.
	LostCausePodDeleted LostCause = "PodDeleted"
	// LostCauseContainerFailed: the runner container failed by itself, or reached the pod's deadline.
	LostCauseContainerFailed LostCause = "ContainerFailed"
	// LostCauseUnknown: the pod was gone before anybody saw why.
	LostCauseUnknown LostCause = "Unknown"
)

// LostCauses are all causes of lost jobs.
var LostCauses = []LostCause{
	LostCauseEvicted, LostCauseNodeLost, LostCausePreempted, LostCauseOOMKilled, LostCausePodDeleted,
	LostCauseContainerFailed,
	LostCauseUnknown,
}

// RunnerPhases are the times at which a job and its runner reached the phases of their wait, in whole seconds, each as
// far as it is known and by the clock of whoever dated it. A job's wait is spent between them; a runner that was idle
// reached most of them before its job was queued. Those of the runner are about its latest pod.
type RunnerPhases struct {
	// When the job was queued on GitHub.
	// +optional
	Queued *metav1.Time `json:"queued,omitempty"`
	// When GitHub assigned the job to the scale set.
	// +optional
	Assigned *metav1.Time `json:"assigned,omitempty"`
	// When the runner was created.
	// +optional
	Created *metav1.Time `json:"created,omitempty"`
	// When GitHub registered the runner, which happens before its pod is created.
	// +optional
	Registered *metav1.Time `json:"registered,omitempty"`
	// When the pod was placed on a node.
	// +optional
	Placed *metav1.Time `json:"placed,omitempty"`
	// When the image, and the volumes and network of the pod, were there: when the first container with the runner's
	// image started.
	// +optional
	ImagePulled *metav1.Time `json:"imagePulled,omitempty"`
	// When the runner container started.
	// +optional
	ContainerUp *metav1.Time `json:"containerUp,omitempty"`
	// When the runner took the job.
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// When the job ended, which is the end of no wait: by GitHub's clock, however late the listener heard of it.
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
}

// EphemeralRunnerStatus has two writers: the listener writes the fields from jobRequestId to finishedAt, and of phases
// those of the job (queued, assigned, started, finished); the manager writes all others.
type EphemeralRunnerStatus struct {
	// The pod's Ready condition.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Pending, Running, Succeeded, Failed or Outdated. Empty means Pending.
	// +optional
	Phase EphemeralRunnerPhase `json:"phase,omitempty"`
	// Why the runner waits or failed, in one word, often the pod's own reason.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Why the runner waits or failed, as text.
	// +optional
	Message string `json:"message,omitempty"`
	// Id of the runner on GitHub, 0 before it is known.
	// +optional
	RunnerID int `json:"runnerId,omitempty"`
	// What the runner's job was lost to, if its pod ended before GitHub had a result from the runner: Evicted,
	// NodeLost, Preempted, OOMKilled, PodDeleted, ContainerFailed or Unknown. It never changes. Not in ARC.
	// +optional
	LostCause LostCause `json:"lostCause,omitempty"`
	// What becomes of the lost job, if the scale set has feedback.rerunLostJobs. Not in ARC.
	// +optional
	Rerun *RerunStatus `json:"rerun,omitempty"`
	// Number of the job in the address of its log on GitHub, as far as GitHub has named it: with feedback.jobLinks, and of
	// lost jobs with feedback.rerunLostJobs. Not in ARC.
	// +optional
	JobNumber int64 `json:"jobNumber,omitempty"`
	// Attempt of the workflow run that the job is of, known with its number. Not in ARC.
	// +optional
	JobAttempt int `json:"jobAttempt,omitempty"`

	// Name of the runner on GitHub.
	// +optional
	RunnerName string `json:"runnerName,omitempty"`
	// When attempts to run the runner failed, by the UID of the attempt's pod, or by lost-NUMBER if that pod was never
	// observed. The sixth in a row makes the runner fail.
	// +optional
	Failures map[string]metav1.Time `json:"failures,omitempty"`
	// When pods of the runner were taken away before it had a job, with or without their nodes: evicted, preempted,
	// deleted, lost. By their UIDs, at most the latest five. They delay the next pod, and are not held against the
	// runner. Not in ARC.
	// +optional
	Disruptions map[string]metav1.Time `json:"disruptions,omitempty"`

	// Number of the job in the Actions service.
	// +optional
	JobRequestID int64 `json:"jobRequestId,omitempty"`
	// Id of the runner's job. Not empty as soon as the runner has, or had, a job.
	// +optional
	JobID string `json:"jobId,omitempty"`
	// OWNER/REPO of the job.
	// +optional
	JobRepositoryName string `json:"jobRepositoryName,omitempty"`
	// Workflow of the job as OWNER/REPO/PATH@REF.
	// +optional
	JobWorkflowRef string `json:"jobWorkflowRef,omitempty"`
	// Id of the workflow run as in its address on GitHub.
	// +optional
	WorkflowRunID int64 `json:"workflowRunId,omitempty"`
	// Name of the job as GitHub shows it.
	// +optional
	JobDisplayName string `json:"jobDisplayName,omitempty"`
	// Event that started the job's workflow run, such as push. Not in ARC.
	// +optional
	Event string `json:"event,omitempty"`
	// How the job ended, as GitHub reports it: succeeded, failed, canceled. Empty while the job is running. Not in ARC.
	// +optional
	JobResult string `json:"jobResult,omitempty"`
	// The listener's patchID whose replicas already reflect the last report about this runner. Not in ARC.
	// +optional
	JobPatchID int `json:"jobPatchID,omitempty"`
	// When the listener heard that the job was over; phases.finished is when it was. Not in ARC.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`

	// When the job and its runner reached the phases of their wait. Not in ARC.
	// +optional
	Phases *RunnerPhases `json:"phases,omitempty"`

	// Generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the object, each with reason and message.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EphemeralRunner is one runner for one job.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=er,categories=actions
// +kubebuilder:printcolumn:name="GitHub Config URL",type=string,JSONPath=`.spec.githubConfigUrl`,priority=1
// +kubebuilder:printcolumn:name="RunnerId",type=number,JSONPath=`.status.runnerId`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="JobRepository",type=string,JSONPath=`.status.jobRepositoryName`
// +kubebuilder:printcolumn:name="JobWorkflowRef",type=string,JSONPath=`.status.jobWorkflowRef`,priority=1
// +kubebuilder:printcolumn:name="WorkflowRunId",type=number,JSONPath=`.status.workflowRunId`
// +kubebuilder:printcolumn:name="JobDisplayName",type=string,JSONPath=`.status.jobDisplayName`
// +kubebuilder:printcolumn:name="JobId",type=string,JSONPath=`.status.jobId`,priority=1
// +kubebuilder:printcolumn:name="JobResult",type=string,JSONPath=`.status.jobResult`
// +kubebuilder:printcolumn:name="LostCause",type=string,JSONPath=`.status.lostCause`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EphemeralRunner struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EphemeralRunnerSpec `json:"spec,omitempty"`
	// Observed state. Until the manager has reconciled the object, observedGeneration is -1, which kstatus treats as in
	// progress.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status EphemeralRunnerStatus `json:"status,omitempty"`
}

// EphemeralRunnerList is a list of EphemeralRunners.
// +kubebuilder:object:root=true
type EphemeralRunnerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralRunner `json:"items"`
}

// HadJob reports whether a job has started on the runner, and perhaps completed, as far as GitHub has said.
func (s *EphemeralRunnerStatus) HadJob() bool { return s.JobID != "" || s.JobRequestID != 0 }

// JobCompleted reports whether GitHub has said that the runner's job is over.
func (s *EphemeralRunnerStatus) JobCompleted() bool { return s.JobResult != "" }

// JobRunning reports whether GitHub has said that the runner's job has begun, and not that it is over.
func (s *EphemeralRunnerStatus) JobRunning() bool { return s.HadJob() && !s.JobCompleted() }

// Done reports whether the runner will not run again.
func (s *EphemeralRunnerStatus) Done() bool {
	switch s.Phase {
	case EphemeralRunnerPhaseSucceeded, EphemeralRunnerPhaseFailed, EphemeralRunnerPhaseOutdated:
		return true
	default:
		return false
	}
}
