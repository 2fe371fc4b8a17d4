package ephemeralrunnerset

import (
	"slices"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// runnerView is what decisions need to know of one EphemeralRunner: some 250 bytes, without the pod template. A view never
// changes; a runner that changes gets a new one.
type runnerView struct {
	name            string
	uid             types.UID
	resourceVersion string // precondition of a deletion while the runner is unregistered
	createdAt       time.Time
	scaleSet        types.NamespacedName // which its labels name
	registrationID  int                  // id on GitHub, 0 while not recorded; see recordedID
	configURL       configURL

	phase    v1alpha1.EphemeralRunnerPhase
	deleting bool
	draining bool // GitHub refused to remove it: it has or had a job

	hadJob     bool // its job was reported started, and perhaps completed
	completed  bool
	proxied    bool // its pod takes the proxy from the set's Secret
	jobPatchID int
	failedAt   time.Time          // when it failed for good, zero if that is not known
	lostCause  v1alpha1.LostCause // empty if no job was lost

	template        string // hash of the spec that it was created from, empty if not known
	reason, message string

	keepers string // finalizers that alone keep a deleted runner, separated by spaces
	// arrival numbers the runners that this process has created, in the order in which they were first seen; 0 are all others.
	arrival   int
	pinned    bool        // its template names a node
	tolerates nodes.Signs // signs of a node's departure that its pod tolerates
}

// configURL is the GitHub address at which a runner is registered, or at which a set registers runners. A runner's id is
// known only at its own address: any other answers that there is no such runner. All runners of an address share one string;
// each holds a pointer.
type configURL = unique.Handle[string]

// configURLOf returns the address in a runner's spec. Spellings that differ in case, which GitHub ignores, or in what the
// chart trims are the same address. Other differences make two addresses, which at worst means that runners are replaced.
func configURLOf(spec *v1alpha1.EphemeralRunnerSpec) configURL {
	return unique.Make(strings.ToLower(strings.Trim(strings.TrimSpace(spec.GitHubConfigUrl), "/")))
}

// alive reports whether the runner's container runs or may still run. A deleted runner that only finalizers of others keep has no pod
// any more, whatever its status says: it is finalized.
func (r *runnerView) alive() bool { return !r.ended() && r.keepers == "" }

// ended reports whether the runner's container has ended for good.
func (r *runnerView) ended() bool {
	switch r.phase {
	case v1alpha1.EphemeralRunnerPhaseSucceeded, v1alpha1.EphemeralRunnerPhaseFailed, v1alpha1.EphemeralRunnerPhaseOutdated:
		return true
	default:
		return false
	}
}

// up reports whether the runner's pod runs.
func (r *runnerView) up() bool { return r.phase == v1alpha1.EphemeralRunnerPhaseRunning }

// needsProxySecret reports whether the runner's pod, or one that it may still get, can't start without the set's Secret.
func (r *runnerView) needsProxySecret() bool { return r.proxied && r.alive() }

// failedIdle reports whether the runner failed and, as far as is known, never had a job.
func (r *runnerView) failedIdle() bool {
	return r.phase == v1alpha1.EphemeralRunnerPhaseFailed && !r.hadJob && !r.completed && !r.draining
}

// blameless reports whether a runner that failed did so by no fault of its template: kubelets refused its pods for the state of their
// nodes, or its pods did not show or were kept by finalizers of others. A runner does not fail because its pods are taken away.
func (r *runnerView) blameless() bool {
	return podstatus.Refused(r.reason) || r.reason == v1alpha1.ReasonPodLost || r.reason == v1alpha1.ReasonPodTerminating
}

// exitedIdle reports whether the runner exited with code 0 and, as far as is known, never had a job.
func (r *runnerView) exitedIdle() bool {
	return r.phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !r.hadJob && !r.completed && !r.draining
}

// same reports whether nothing has changed that a decision needs. The resourceVersion matters until the runner is registered:
// until then it may be deleted on condition that nobody has written to it.
func (r *runnerView) same(now runnerView) bool {
	before := *r
	before.createdAt, now.createdAt = time.Time{}, time.Time{} // follows from the UID
	if now.registrationID != 0 {
		before.resourceVersion, now.resourceVersion = "", ""
	}
	return before == now
}

func viewOf(object *v1alpha1.EphemeralRunner) runnerView {
	status := &object.Status
	var failedAt time.Time
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if status.Phase == v1alpha1.EphemeralRunnerPhaseFailed && stalled != nil && stalled.Status == metav1.ConditionTrue {
		failedAt = stalled.LastTransitionTime.Time
	}
	return runnerView{
		name: object.Name, uid: object.UID, resourceVersion: object.ResourceVersion,
		createdAt:      object.CreationTimestamp.Time,
		scaleSet:       kube.ScaleSetOf(object),
		registrationID: recordedID(object),
		configURL:      configURLOf(&object.Spec),
		phase:          status.Phase,
		deleting:       !object.DeletionTimestamp.IsZero(),
		draining:       meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining),
		hadJob:         status.HadJob(),
		completed:      status.JobCompleted(),
		proxied:        object.Spec.ProxySecretRef != "",
		jobPatchID:     status.JobPatchID,
		failedAt:       failedAt,
		lostCause:      knownCause(status.LostCause),
		template:       object.Annotations[v1alpha1.AnnotationRunnerSpecHash],
		pinned:         object.Spec.PodSpec.NodeName != "",
		tolerates:      nodes.Tolerated(object.Spec.PodSpec.Tolerations),
		reason:         status.Reason, message: status.Message,
		keepers: strings.Join(kube.Keepers(object), " "),
	}
}

// recordedID returns the runner's id on GitHub as its status has it, 0 if that has none or is a copy of another runner's, whose name it
// then has: a backup tool restores a status as it was. Whether a copy was edited only GitHub can tell.
func recordedID(runner *v1alpha1.EphemeralRunner) int {
	if named := runner.Status.RunnerName; named != "" && named != runner.Name {
		return 0
	}
	return runner.Status.RunnerID
}

// lost reports whether the runner's job was lost.
func (r *runnerView) lost() bool { return r.lostCause != "" && r.ended() }

// knownCause returns Unknown for a cause that this version doesn't know: anybody with rights in the namespace may write one.
func knownCause(cause v1alpha1.LostCause) v1alpha1.LostCause {
	if cause == "" || slices.Contains(v1alpha1.LostCauses, cause) {
		return cause
	}
	return v1alpha1.LostCauseUnknown
}

// States of runners.
const (
	statePending   = "pending"
	stateIdle      = "idle"
	stateBusy      = "busy"
	stateFinishing = "finishing"
	stateFailed    = "failed"
	// stateLost: failed with its job, which says nothing about image or template.
	stateLost = "lost"
)

// stateAndReason are the labels of runnersByState that describe a runner.
type stateAndReason struct{ state, reason string }

func stateOf(r *runnerView) stateAndReason {
	switch {
	case r.lost():
		return stateAndReason{stateLost, string(r.lostCause)}
	case r.phase == v1alpha1.EphemeralRunnerPhaseFailed || r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		return stateAndReason{stateFailed, report.KnownReason(r.reason)}
	case r.ended() || r.completed || r.deleting && !r.draining:
		return stateAndReason{state: stateFinishing}
	case r.hadJob || r.draining:
		return stateAndReason{state: stateBusy}
	case r.up():
		return stateAndReason{state: stateIdle}
	default:
		return stateAndReason{statePending, report.KnownReason(r.reason)}
	}
}
