package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Feedback is what the author of a job is told of it, and what happens after it was lost.
type Feedback struct {
	// Tell by a neutral check run on the commit why jobs wait longer than checkAfter, and which were lost. The
	// credentials must be those of a GitHub App with the repository permissions Checks: read and write and Actions:
	// read.
	// +optional
	Checks bool `json:"checks,omitempty"`
	// How long a job waits before a check run says why. Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h') || (oldSelf.hasValue() && oldSelf.value() == self)",optionalOldSelf=true,message="must be at most 24h: GitHub cancels a job that has waited longer"
	CheckAfter *metav1.Duration `json:"checkAfter,omitempty"`
	// Run lost jobs again on GitHub when their workflow run has ended. Absent: never. The credentials need the
	// repository permission Actions: read and write.
	// +optional
	RerunLostJobs *RerunLostJobs `json:"rerunLostJobs,omitempty"`
	// Ask GitHub once for each workflow run where the logs of its jobs are, so that the ledger's pages and the plugin lead
	// there. The credentials need the repository permission Actions: read.
	// +optional
	JobLinks bool `json:"jobLinks,omitempty"`
}

// A job waits for defaultCheckAfter before a check run names the cause, unless the set has another time.
const defaultCheckAfter = 10 * time.Minute

// EffectiveCheckAfter returns the wait after which a check run tells of a job.
func (f *Feedback) EffectiveCheckAfter() time.Duration {
	if f.CheckAfter == nil {
		return defaultCheckAfter
	}
	return f.CheckAfter.Duration
}

// CheckRecord is a check run that a set keeps on a commit. It is written before GitHub is asked for it.
type CheckRecord struct {
	// OWNER/REPO of the workflow run.
	// +kubebuilder:validation:MaxLength=256
	Repository string `json:"repository"`
	// The workflow run whose commit has it.
	RunID int64 `json:"runID"`
	// What it is about: Waiting or Lost.
	// +kubebuilder:validation:Enum=Waiting;Lost
	About string `json:"about"`
	// Why jobs wait, or to what they were lost, in one word.
	// +kubebuilder:validation:MaxLength=64
	Cause string `json:"cause"`
	// The first job that it was about, which is part of its name on the commit. Empty in records of earlier versions.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Job string `json:"job,omitempty"`
	// Set when it has been told for the last time.
	// +optional
	Over bool `json:"over,omitempty"`
	// Tells what was told last from anything else: a manager that has just started says it no second time.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Told string `json:"told,omitempty"`
}

// RerunLostJobs chooses the lost jobs that are run again.
type RerunLostJobs struct {
	// How many attempts more than the first a workflow run may have for it.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxAttempts int `json:"maxAttempts,omitempty"`
	// What happens if there is a newer run of the same workflow, branch and event, over whose results the older one might
	// write, or which it might cancel: GiveUp runs nothing again, Rerun does.
	// +optional
	// +kubebuilder:default=GiveUp
	// +kubebuilder:validation:Enum=GiveUp;Rerun
	IfNewerRun IfNewerRun `json:"ifNewerRun,omitempty"`
	// What a job must have been lost to: Evicted, NodeLost, Preempted, OOMKilled, PodDeleted or ContainerFailed.
	// +optional
	// +listType=set
	// +kubebuilder:default={Evicted,NodeLost,Preempted}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:Enum=Evicted;NodeLost;Preempted;OOMKilled;PodDeleted;ContainerFailed
	Causes []LostCause `json:"causes,omitempty"`
}

// IfNewerRun is what happens to the lost jobs of a run that has been overtaken.
type IfNewerRun string

// What may happen to them.
const (
	// NewerRunGivesUp: they are not run again.
	NewerRunGivesUp IfNewerRun = "GiveUp"
	// NewerRunIgnored: they are run again all the same.
	NewerRunIgnored IfNewerRun = "Rerun"
)

// RerunState is the state of a lost job's rerun.
type RerunState string

// States of the rerun of a lost job. The last two are final.
const (
	// RerunWanted: the job is run again when its workflow run has ended.
	RerunWanted RerunState = "Wanted"
	// RerunAsked: GitHub is being asked, or was.
	RerunAsked RerunState = "Asked"
	// RerunDone: another attempt of the workflow run has the job.
	RerunDone RerunState = "Done"
	// RerunGivenUp: it is not run again; the message has the reason.
	RerunGivenUp RerunState = "GivenUp"
)

// RerunReason says in one word why a lost job is not run again.
type RerunReason string

// Why lost jobs are not run again.
const (
	// RerunCauseNotChosen: the job was lost to none of the causes of feedback.rerunLostJobs.
	RerunCauseNotChosen RerunReason = "CauseNotChosen"
	// RerunNewerRun: there is a newer run of the same workflow, branch and event.
	RerunNewerRun RerunReason = "NewerRun"
	// RerunAttemptsUsed: the workflow run has as many attempts as maxAttempts allows.
	RerunAttemptsUsed RerunReason = "AttemptsUsed"
	// RerunBegunByOthers: somebody else has begun another attempt of the workflow run.
	RerunBegunByOthers RerunReason = "BegunByOthers"
	// RerunCanceled: the job or its workflow run was canceled, as far as GitHub's answers tell.
	RerunCanceled RerunReason = "Canceled"
	// RerunHasResult: GitHub has a result of the job.
	RerunHasResult RerunReason = "HasResult"
	// RerunJobUnknown: GitHub has named no workflow run of the job, or no job of it on its runner.
	RerunJobUnknown RerunReason = "JobUnknown"
	// RerunPermissionMissing: the credentials lack a permission.
	RerunPermissionMissing RerunReason = "PermissionMissing"
	// RerunRefused: GitHub refuses it, because the run is gone, too old, or was run again too often.
	RerunRefused RerunReason = "Refused"
	// RerunTooLate: the workflow run has not ended in time.
	RerunTooLate RerunReason = "TooLate"
	// RerunTooManyWait: too many lost jobs of the scale set wait already.
	RerunTooManyWait RerunReason = "TooManyWait"
	// RerunRunnerDeleted: the runner's object was deleted.
	RerunRunnerDeleted RerunReason = "RunnerDeleted"
)

// RerunReasons has all of them.
var RerunReasons = []RerunReason{RerunCauseNotChosen, RerunNewerRun, RerunAttemptsUsed, RerunBegunByOthers, RerunCanceled,
	RerunHasResult, RerunJobUnknown, RerunPermissionMissing, RerunRefused, RerunTooLate, RerunTooManyWait, RerunRunnerDeleted}

// RerunStatus is the status of a lost job's rerun.
type RerunStatus struct {
	// Wanted, Asked, Done or GivenUp.
	State RerunState `json:"state"`
	// Attempt of the workflow run in which the job was lost, or carried over; of state Done the attempt that has it
	// again.
	// +optional
	Attempt int `json:"attempt,omitempty"`
	// When the state was reached.
	Since metav1.Time `json:"since"`
	// Why the job is not run again, in one word; empty in any other state.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason RerunReason `json:"reason,omitempty"`
	// Why, as text.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// The jobs that GitHub cancelled because of the loss, as it does in a matrix with fail-fast. They run again with it.
	// +optional
	Consequences *RerunConsequences `json:"consequences,omitempty"`
}

// RerunConsequences are jobs that GitHub cancelled because a lost one had failed.
type RerunConsequences struct {
	// When the lost job failed, by GitHub's clock.
	From metav1.Time `json:"from"`
	// When the last of them ended, by the same clock.
	Until metav1.Time `json:"until"`
	// How many there were.
	Jobs int `json:"jobs"`
	// How many had not run again when that was seen last.
	// +optional
	Left int `json:"left,omitempty"`
	// The attempt that has the lost job again.
	// +optional
	Attempt int `json:"attempt,omitempty"`
	// The latest attempt that was begun for the lost job or one of these.
	// +optional
	Began int `json:"began,omitempty"`
}
