package ephemeralrunnerset

import (
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// runnerView is what a decision needs to know of one EphemeralRunner: some 170 bytes, without pod template. A view is never
// changed: a runner that has changed gets a new one.
type runnerView struct {
	name            string
	uid             types.UID
	resourceVersion string // precondition of a deletion while the runner is unregistered
	createdAt       time.Time
	registrationID  int // id on GitHub, 0 while not recorded
	configURL       configURL

	phase    v1alpha1.EphemeralRunnerPhase
	deleting bool
	draining bool // GitHub refused to remove it: it has, or had, a job

	hadJob     bool // a job was reported to have started, and perhaps to have ended
	completed  bool
	proxied    bool // its pod takes the proxy from the set's Secret
	jobPatchID int

	template        string // hash of what it was made from, empty where that is not known
	reason, message string
}

// configURL is the GitHub address that a runner is registered at, or a set registers runners at. A runner's id is known at its
// own address only: any other answers that there is no such runner. It is one pointer, and one string for all its runners.
type configURL = unique.Handle[string]

// configURLOf returns the address of a runner's spec. Spellings that differ in case, which GitHub ignores, or in what a chart
// trims are one address. Those that differ otherwise are two, which costs no more than that runners are replaced.
func configURLOf(spec *v1alpha1.EphemeralRunnerSpec) configURL {
	return unique.Make(strings.ToLower(strings.Trim(strings.TrimSpace(spec.GitHubConfigUrl), "/")))
}

// alive reports whether the runner's container runs or may still run.
func (r *runnerView) alive() bool { return !r.ended() }

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

// needsProxySecret reports whether the runner's pod, or one that it may still get, does not start without the set's Secret.
func (r *runnerView) needsProxySecret() bool { return r.proxied && r.alive() }

// failedIdle reports whether the runner failed and, as far as is known, never had a job.
func (r *runnerView) failedIdle() bool {
	return r.phase == v1alpha1.EphemeralRunnerPhaseFailed && !r.hadJob && !r.completed && !r.draining
}

// exitedIdle reports whether the runner exited with code 0 and, as far as is known, never had a job.
func (r *runnerView) exitedIdle() bool {
	return r.phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !r.hadJob && !r.completed && !r.draining
}

// same reports whether nothing has changed that a decision needs. A runner's resourceVersion is needed while it may be
// deleted on condition that nobody has written to it, which is until it is registered.
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
	return runnerView{
		name: object.Name, uid: object.UID, resourceVersion: object.ResourceVersion,
		createdAt:      object.CreationTimestamp.Time,
		registrationID: status.RunnerID,
		configURL:      configURLOf(&object.Spec),
		phase:          status.Phase,
		deleting:       !object.DeletionTimestamp.IsZero(),
		draining:       meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining),
		hadJob:         status.HadJob(),
		completed:      status.JobCompleted(),
		proxied:        object.Spec.ProxySecretRef != "",
		jobPatchID:     status.JobPatchID,
		template:       object.Annotations[v1alpha1.AnnotationRunnerSpecHash],
		reason:         status.Reason, message: status.Message,
	}
}

// templateHash identifies the template that runners are made from.
func templateHash(set *v1alpha1.EphemeralRunnerSet) string {
	return kube.Hash(set.Spec.EphemeralRunnerSpec)
}
