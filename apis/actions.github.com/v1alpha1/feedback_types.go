package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Feedback says what happens for the author of a job after it was lost.
type Feedback struct {
	// Run lost jobs again on GitHub when their workflow run has ended. Absent: never. The credentials need the repository permission
	// Actions: read and write.
	// +optional
	RerunLostJobs *RerunLostJobs `json:"rerunLostJobs,omitempty"`
}

// RerunLostJobs says which lost jobs are run again.
type RerunLostJobs struct {
	// How many attempts more than the first a workflow run may have for it.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// What a job must have been lost to: Evicted, NodeLost, Preempted, OOMKilled, PodDeleted or ContainerFailed.
	// +optional
	// +listType=set
	// +kubebuilder:default={Evicted,NodeLost,Preempted}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:Enum=Evicted;NodeLost;Preempted;OOMKilled;PodDeleted;ContainerFailed
	Causes []LostCause `json:"causes,omitempty"`
}

// RerunState says how far the rerun of a lost job is.
type RerunState string

// States of the rerun of a lost job. The last two are final.
const (
	// RerunWanted: the job is run again when its workflow run has ended.
	RerunWanted RerunState = "Wanted"
	// RerunAsked: GitHub is being asked, or was.
	RerunAsked RerunState = "Asked"
	// RerunDone: another attempt of the workflow run has the job.
	RerunDone RerunState = "Done"
	// RerunGivenUp: it is not run again; the message says why.
	RerunGivenUp RerunState = "GivenUp"
)

// RerunStatus says what becomes of a lost job.
type RerunStatus struct {
	// Wanted, Asked, Done or GivenUp.
	State RerunState `json:"state"`
	// Attempt of the workflow run in which the job was lost, or carried over; of state Done the attempt that has it again.
	// +optional
	Attempt int `json:"attempt,omitempty"`
	// When the state was reached.
	Since metav1.Time `json:"since"`
	// Why, as text.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
