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

// runner is what a decision needs to know of one EphemeralRunner: some 170 bytes, without pod template. A view is never
// changed: what is new of a runner is a new view.
type runner struct {
	name         string
	uid          types.UID
	version      string // resourceVersion
	created      time.Time
	registration int // id on GitHub, 0 while not recorded
	place        place

	phase    v1alpha1.EphemeralRunnerPhase
	deleting bool
	draining bool // it has, or had, a job by GitHub's word: removal was refused

	hasJob     bool
	completed  bool
	jobPatchID int

	template        string // hash of what it was made from, empty where that is not known
	reason, message string
}

// place is the GitHub address that a runner is registered at, or a set registers runners at. Ids are those of one place:
// any other answers that it does not know them. It is one pointer, and one string for all runners of a place.
type place = unique.Handle[string]

// placeOf takes two spellings for one place where they differ in case, which GitHub doesn't tell apart, or in what a chart trims: for the
// others it costs no more than that runners are replaced.
func placeOf(spec *v1alpha1.EphemeralRunnerSpec) place {
	return unique.Make(strings.ToLower(strings.Trim(strings.TrimSpace(spec.GitHubConfigUrl), "/")))
}

// alive says that the runner has a job, may get one, or will.
func (r *runner) alive() bool { return !r.ended() }

// ended says that the runner's container will not run again.
func (r *runner) ended() bool {
	switch r.phase {
	case v1alpha1.EphemeralRunnerPhaseSucceeded, v1alpha1.EphemeralRunnerPhaseFailed, v1alpha1.EphemeralRunnerPhaseOutdated:
		return true
	default:
		return false
	}
}

// up says that the runner's pod runs.
func (r *runner) up() bool { return r.phase == v1alpha1.EphemeralRunnerPhaseRunning }

// failedIdle says that the runner failed and never had a job.
func (r *runner) failedIdle() bool {
	return r.phase == v1alpha1.EphemeralRunnerPhaseFailed && !r.hasJob && !r.completed && !r.draining
}

// exitedIdle says that the runner ended well, as far as is known without ever having had a job.
func (r *runner) exitedIdle() bool {
	return r.phase == v1alpha1.EphemeralRunnerPhaseSucceeded && !r.hasJob && !r.completed && !r.draining
}

// same says that what a decision needs has not changed. A runner's resourceVersion is needed while it may be deleted on
// condition that nobody has written to it, which is until it is registered.
func (r *runner) same(now runner) bool {
	before := *r
	before.created, now.created = time.Time{}, time.Time{} // it follows from the UID
	if now.registration != 0 {
		before.version, now.version = "", ""
	}
	return before == now
}

func viewOf(object *v1alpha1.EphemeralRunner) runner {
	status := &object.Status
	return runner{
		name: object.Name, uid: object.UID, version: object.ResourceVersion,
		created:      object.CreationTimestamp.Time,
		registration: status.RunnerID,
		place:        placeOf(&object.Spec),
		phase:        status.Phase,
		deleting:     !object.DeletionTimestamp.IsZero(),
		draining:     meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining),
		hasJob:       status.HasJob(),
		completed:    status.JobCompleted(),
		jobPatchID:   status.JobPatchID,
		template:     object.Annotations[v1alpha1.AnnotationRunnerSpecHash],
		reason:       status.Reason, message: status.Message,
	}
}

// templateHash identifies the template that runners are made from.
func templateHash(set *v1alpha1.EphemeralRunnerSet) string {
	return kube.Hash(set.Spec.EphemeralRunnerSpec)
}
