package roster

import (
	"slices"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// Runner has the facts about one EphemeralRunner on which decisions depend: some 250 bytes, without the pod template. A
// view never changes; a runner that changes gets a new one.
type Runner struct {
	Name            string
	UID             types.UID
	ResourceVersion string // precondition of a deletion while the runner is unregistered
	CreatedAt       time.Time
	ScaleSet        types.NamespacedName // which its labels name
	RegistrationID  int                  // id on GitHub, 0 while not recorded; see recordedID
	ConfigURL       ConfigURL

	Phase    v1alpha1.EphemeralRunnerPhase
	Deleting bool
	Draining bool // GitHub refused to remove it: it has or had a job

	HadJob     bool // its job was reported started, and perhaps completed
	Completed  bool
	proxied    bool // its pod takes the proxy from the set's Secret
	JobPatchID int
	FailedAt   time.Time      // the time of its failure, after which it is not tried again, zero if it is not known
	LostJob    *feedback.Lost // nil if no job was lost

	Run    int64 // number of its job's workflow run on GitHub, 0 if that is not known
	Linked bool  // GitHub has said where the job's log is

	Template        string // hash of the spec that it was created from, empty if not known
	Reason, Message string

	Keepers string // finalizers that alone keep a deleted runner, separated by spaces
	// Arrival numbers the runners that this process has created, in the order in which they were first seen; all others
	// have 0.
	Arrival   int
	Pinned    bool        // its template names a node
	Tolerates nodes.Signs // signs of a node's departure that its pod tolerates
}

// ConfigURL is the GitHub address at which a runner is registered, or at which a set registers runners. A runner's id
// is known only at its own address: any other answers that there is no such runner. All runners of an address share one
// string; each holds a pointer.
type ConfigURL = unique.Handle[string]

// ConfigURLOf returns the address in a runner's spec. Spellings that differ in case, which GitHub ignores, or in what
// the chart trims are the same address. Other differences make two addresses, which at worst means that runners are
// replaced.
func ConfigURLOf(spec *v1alpha1.EphemeralRunnerSpec) ConfigURL {
	return unique.Make(strings.ToLower(strings.Trim(strings.TrimSpace(spec.GitHubConfigUrl), "/")))
}

// Alive reports whether the runner's container runs or may still run. A deleted runner that only finalizers of others
// keep has no pod any more, whatever its status says: it is finalized.
func (r *Runner) Alive() bool { return !r.Ended() && r.Keepers == "" }

// Ended reports whether the runner's container has ended and will not start again.
func (r *Runner) Ended() bool {
	switch r.Phase {
	case v1alpha1.EphemeralRunnerPhaseSucceeded, v1alpha1.EphemeralRunnerPhaseFailed,
		v1alpha1.EphemeralRunnerPhaseOutdated:
		return true
	default:
		return false
	}
}

// Up reports whether the runner's pod runs.
func (r *Runner) Up() bool { return r.Phase == v1alpha1.EphemeralRunnerPhaseRunning }

// NeedsProxySecret reports whether the runner's pod, or one that it may still get, can't start without the set's
// Secret.
func (r *Runner) NeedsProxySecret() bool { return r.proxied && r.Alive() }

// FailedIdle reports whether the runner failed and, as far as is known, never had a job.
func (r *Runner) FailedIdle() bool {
	return r.Phase == v1alpha1.EphemeralRunnerPhaseFailed && !r.HadJob && !r.Completed && !r.Draining
}

// Blameless reports whether a runner that failed did so by no fault of its template: kubelets refused its pods for the
// state of their nodes, its pods did not show or were kept by finalizers of others, or it was deleted and stays because
// of its claims. A runner does not fail because its pods are taken away.
func (r *Runner) Blameless() bool {
	switch r.Reason {
	case v1alpha1.ReasonPodLost, v1alpha1.ReasonPodTerminating, v1alpha1.ReasonVolumeClaimAwaited,
		v1alpha1.ReasonVolumeClaimNotDeleted:
		return true
	}
	return podstatus.Refused(r.Reason)
}

// ExitedIdle reports whether the runner exited with code 0 and, as far as is known, never had a job.
func (r *Runner) ExitedIdle() bool {
	return r.Phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !r.HadJob && !r.Completed && !r.Draining
}

// Of returns the view of a runner as it is now.
func Of(object *v1alpha1.EphemeralRunner) Runner {
	status := &object.Status
	var failedAt time.Time
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if status.Phase == v1alpha1.EphemeralRunnerPhaseFailed && stalled != nil && stalled.Status == metav1.ConditionTrue {
		failedAt = stalled.LastTransitionTime.Time
	}
	r := Runner{
		Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
		CreatedAt:      object.CreationTimestamp.Time,
		ScaleSet:       kube.ScaleSetOf(object),
		RegistrationID: recordedID(object),
		ConfigURL:      ConfigURLOf(&object.Spec),
		Phase:          status.Phase,
		Deleting:       !object.DeletionTimestamp.IsZero(),
		Draining:       meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining),
		HadJob:         status.HadJob(),
		Completed:      status.JobCompleted(),
		proxied:        object.Spec.ProxySecretRef != "",
		JobPatchID:     status.JobPatchID,
		Run:            max(0, status.WorkflowRunID),
		Linked:         status.JobNumber > 0,
		FailedAt:       failedAt,
		Template:       object.Annotations[v1alpha1.AnnotationRunnerSpecHash],
		Pinned:         object.Spec.PodSpec.NodeName != "",
		Tolerates:      nodes.Tolerated(object.Spec.PodSpec.Tolerations),
		Reason:         status.Reason, Message: status.Message,
		Keepers: strings.Join(kube.Keepers(object), " "),
	}
	if cause := knownCause(status.LostCause); cause != "" {
		r.LostJob = lostJob(status, cause, &r)
	}
	return r
}

// lostJob returns the job of a runner, which was lost, as the runner's status has it.
func lostJob(status *v1alpha1.EphemeralRunnerStatus, cause v1alpha1.LostCause, r *Runner) *feedback.Lost {
	lost := &feedback.Lost{
		Runner: r.Name, Job: status.JobDisplayName, Cause: cause, At: kube.LaterOf(r.FailedAt, r.CreatedAt),
		Silent: cause == v1alpha1.LostCauseNodeLost && !podstatus.ShutDown(status.Reason),
		Run:    feedback.Run{Repository: status.JobRepositoryName, ID: status.WorkflowRunID},
	}
	if status.Rerun != nil {
		lost.Rerun = *status.Rerun
	}
	return lost
}

// recordedID returns the runner's id on GitHub from its status. It returns 0 if the status has none, or if it names
// another runner and so is a copy of that one's: a backup tool restores a status as it was. Only GitHub can tell
// whether a copy was edited.
func recordedID(runner *v1alpha1.EphemeralRunner) int {
	if named := runner.Status.RunnerName; named != "" && named != runner.Name {
		return 0
	}
	return runner.Status.RunnerID
}

// Lost reports whether the runner's job was lost.
func (r *Runner) Lost() bool { return r.LostJob != nil && r.Ended() }

// knownCause returns Unknown for a cause that this version doesn't know: anybody with rights in the namespace may write
// one.
func knownCause(cause v1alpha1.LostCause) v1alpha1.LostCause {
	if cause == "" || slices.Contains(v1alpha1.LostCauses, cause) {
		return cause
	}
	return v1alpha1.LostCauseUnknown
}

// States of runners.
const (
	Pending   = "pending"
	Idle      = "idle"
	Busy      = "busy"
	Finishing = "finishing"
	Failed    = "failed"
	// stateLost: failed with its job, which says nothing about image or template.
	Lost = "lost"
)

// State has the activity of a runner and, if the runner waits or has failed, the reason.
type State struct{ Name, Reason string }

// StateOf returns the state that metrics and counts show of a runner. Its reason is a known one, or Other.
func StateOf(r *Runner) State {
	switch {
	case r.Lost():
		return State{Lost, string(r.LostJob.Cause)}
	case r.Phase == v1alpha1.EphemeralRunnerPhaseFailed || r.Phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		return State{Failed, report.KnownReason(r.Reason)}
	case r.Ended() || r.Completed || (r.Deleting && !r.Draining):
		return State{Name: Finishing}
	case r.HadJob || r.Draining:
		return State{Name: Busy}
	case r.Up():
		return State{Name: Idle}
	default:
		return State{Pending, report.KnownReason(r.Reason)}
	}
}
