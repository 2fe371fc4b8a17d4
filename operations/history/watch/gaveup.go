package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// GaveUp returns the jobs that ended before a runner had them, as far as listeners tell of them.
func (o *Objects) GaveUp() (jobs []ledger.Job) {
	var sets v1alpha1.EphemeralRunnerSetList
	_ = o.cache.List(context.Background(), &sets, client.UnsafeDisableDeepCopy) // it fails before Start only
	now := o.Clock.Now()
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.Status.Listener == nil {
			continue
		}
		for j := range set.Status.Listener.GaveUp {
			if job, known := gaveUp(o.Name, set, &set.Status.Listener.GaveUp[j]); known {
				o.limited.Add(&job, now)
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}

// gaveUp returns the row of a job that ended before a runner had it. In the place of a runner's UID is what tells it
// from all others: nobody can write another set's rows so.
func gaveUp(cluster string, set *v1alpha1.EphemeralRunnerSet, ended *v1alpha1.UnstartedJob) (ledger.Job, bool) {
	of := kube.ScaleSetOf(set)
	workflow, ref, _ := strings.Cut(ended.WorkflowRef, "@")
	job := ledger.Job{
		Cluster: cluster, Namespace: set.Namespace, Set: of.Name, Repository: ended.Repository, Workflow: workflow, Ref: ref,
		Name: ended.Name, RunID: known(ended.RunID), JobID: ended.JobID, Event: ended.Event,
		Queued: utc(ended.QueuedAt), Assigned: ended.AssignedAt.UTC(), Finished: ended.FinishedAt.UTC(),
		Result: "canceled", Ending: ledger.EndingGaveUp,
	}
	job.At = job.Assigned
	if !job.Queued.IsZero() {
		job.At = job.Queued
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{cluster, set.Namespace, of.Name, ended.JobID}, "\x00")))
	job.RunnerUID = "gave-up-" + hex.EncodeToString(sum[:16])
	return job, ended.JobID != "" && !job.Finished.IsZero() && !job.Finished.Before(job.At)
}
