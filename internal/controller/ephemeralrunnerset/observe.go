package ephemeralrunnerset

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// runner is what a decision needs to know of one EphemeralRunner: some 200 bytes, so that looking at a set of thousands
// copies no pod template.
type runner struct {
	name         string
	uid          types.UID
	version      string // resourceVersion
	created      time.Time
	registration int // id on GitHub, 0 while not recorded

	phase    v1alpha1.EphemeralRunnerPhase
	ready    bool
	deleting bool
	draining bool // it has, or had, a job by GitHub's word: removal was refused

	hasJob     bool
	completed  bool
	jobPatchID int

	oldTemplate     bool
	reason, message string
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

// observe returns views of the runners, oldest first.
func observe(runners []v1alpha1.EphemeralRunner, specHash string) []*runner {
	views := make([]*runner, 0, len(runners))
	for i := range runners {
		views = append(views, view(&runners[i], specHash))
	}
	slices.SortFunc(views, func(a, b *runner) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name))
	})
	return views
}

func view(object *v1alpha1.EphemeralRunner, specHash string) *runner {
	status := &object.Status
	// A runner that ARC made has no hash and counts as of the present template: taking over kills no runner.
	hash, known := object.Annotations[v1alpha1.AnnotationRunnerSpecHash]
	return &runner{
		name: object.Name, uid: object.UID, version: object.ResourceVersion,
		created:      object.CreationTimestamp.Time,
		registration: status.RunnerID,
		phase:        status.Phase, ready: status.Ready,
		deleting:    !object.DeletionTimestamp.IsZero(),
		draining:    meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDraining),
		hasJob:      status.HasJob(),
		completed:   status.JobCompleted(),
		jobPatchID:  status.JobPatchID,
		oldTemplate: known && hash != specHash,
		reason:      status.Reason, message: status.Message,
	}
}

// templateHash identifies the template that runners are made from.
func templateHash(set *v1alpha1.EphemeralRunnerSet) string {
	return kube.Hash(set.Spec.EphemeralRunnerSpec)
}
