package mark

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// newRunner returns a runner with a job.
func newRunner() *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners",
		Name: "set-runner-abcde"}}
	runner.Status.JobRequestID, runner.Status.JobRepositoryName = 7, "acme/"+strings.Repeat("x", 80)
	return runner
}

// managedFields double the cost of each later write of the pod. Server-side apply needs them.
func TestPodLosesTheRecordOfItsWritersUnlessSomebodyApplies(t *testing.T) {
	const forgets = `{"metadata":{"annotations":{"a":"b"},"managedFields":[{}],"uid":"pod-uid"}}`
	const keeps = `{"metadata":{"annotations":{"a":"b"},"uid":"pod-uid"}}`
	for operation, want := range map[metav1.ManagedFieldsOperationType]string{
		"": forgets, metav1.ManagedFieldsOperationUpdate: forgets, metav1.ManagedFieldsOperationApply: keeps,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod-uid"}}
		if operation != "" {
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody", Operation: operation}}
		}
		if got, err := podPatch(pod, map[string]any{"a": "b"}, nil); err != nil || string(got) != want {
			t.Errorf("somebody's operation %q: patch %s (%v), want %s", operation, got, err, want)
		}
	}
}

func TestWhatCanNotBeALabelIsLeftOut(t *testing.T) {
	annotations, labels := jobMetadata(newRunner())
	if annotations[v1alpha1.AnnotationJobID] != "7" || annotations[v1alpha1.AnnotationJobRunID] != nil {
		t.Errorf("annotations %v, want the request's number for the job and no run", annotations)
	}
	if diff := cmp.Diff(map[string]any{v1alpha1.LabelJobID: "7"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestDeferredReportsAreReconsideredApart(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	seen := map[time.Time]int{}
	for i := range 1000 {
		runner := newRunner()
		runner.UID = types.UID(fmt.Sprint("uid-", i))
		at := RecheckAt(runner, noon)
		if after := at.Sub(noon); after < recheckInterval || after >= 2*recheckInterval {
			t.Fatalf("reconsidered after %s", after)
		}
		seen[at.Truncate(100*time.Millisecond)]++
	}
	for at, runners := range seen {
		if runners > 200 {
			t.Errorf("%d of 1000 runners are reconsidered within 100 ms of %s", runners, at)
		}
	}
}
