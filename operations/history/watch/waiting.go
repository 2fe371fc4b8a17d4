package watch

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Waiting returns the jobs that wait for a runner, by scale set, as far as listeners tell of them.
func (o *Objects) Waiting() map[types.NamespacedName][]v1alpha1.WaitingJob {
	// Lists are read from memory, and fail before Start only.
	var runnerSets v1alpha1.EphemeralRunnerSetList
	var runners v1alpha1.EphemeralRunnerList
	_ = o.cache.List(context.Background(), &runnerSets, client.UnsafeDisableDeepCopy)
	_ = o.cache.List(context.Background(), &runners, client.UnsafeDisableDeepCopy)
	return waitingBySet(runnerSets.Items, runners.Items)
}

// waitingBySet returns the jobs that runner sets list as waiting, the oldest first. A listener's list is half a minute
// old at most: a job that one of the runners in its namespace has by now is not among them.
func waitingBySet(
	runnerSets []v1alpha1.EphemeralRunnerSet, runners []v1alpha1.EphemeralRunner,
) map[types.NamespacedName][]v1alpha1.WaitingJob {
	type jobID struct{ namespace, id string }
	running := map[jobID]bool{}
	for i := range runners {
		if id := runners[i].Status.JobID; id != "" {
			running[jobID{runners[i].Namespace, id}] = true
		}
	}
	waiting := map[types.NamespacedName][]v1alpha1.WaitingJob{}
	for i := range runnerSets {
		listener := runnerSets[i].Status.Listener
		if listener == nil {
			continue
		}
		of := kube.ScaleSetOf(&runnerSets[i])
		for _, job := range listener.Waiting {
			if !running[jobID{runnerSets[i].Namespace, job.JobID}] {
				waiting[of] = append(waiting[of], job)
			}
		}
	}
	for _, jobs := range waiting {
		slices.SortFunc(jobs, func(a, b v1alpha1.WaitingJob) int { return a.Since().Compare(b.Since()) })
	}
	return waiting
}
