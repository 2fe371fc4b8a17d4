package watch_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// A job that was cancelled before it had a runner has a row with an end of its own, which waits as long as the job did;
// but not one that GitHub assigns again within a minute.
func TestJobsThatGaveUpHaveRows(t *testing.T) {
	set := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s-x7k2p", Labels: map[string]string{
		v1alpha1.LabelScaleSetName: "s", v1alpha1.LabelScaleSetNamespace: "n"}}}
	ended := &v1alpha1.UnstartedJob{WaitingJob: v1alpha1.WaitingJob{Repository: "acme/app", RunID: 7, JobID: "j", Name: "build",
		WorkflowRef: "acme/app/.github/workflows/ci.yml@refs/heads/main",
		QueuedAt:    new(metav1.NewTime(noon)), AssignedAt: metav1.NewTime(noon.Add(5 * time.Second))},
		FinishedAt: metav1.NewTime(noon.Add(10 * time.Minute))}
	job, known := watch.GaveUp("c", set, ended)
	if !known || job.Set != "s" || job.Result != "canceled" || job.Ending != ledger.EndingGaveUp || job.RunTime() != 0 ||
		job.Workflow != "acme/app/.github/workflows/ci.yml" || job.Ref != "refs/heads/main" {
		t.Errorf("the row is %+v", job)
	}
	whole := time.Duration(0)
	for _, wait := range job.Waits() {
		whole += wait.Took
	}
	if whole != 10*time.Minute {
		t.Errorf("it waited %s", whole)
	}
	if other, _ := watch.GaveUp("other", set, ended); other.RunnerUID == job.RunnerUID {
		t.Error("two clusters have the same row")
	}
}
