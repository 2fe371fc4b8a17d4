package mark_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// newRunner returns a runner with a job.
func newRunner() *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners",
		Name: "set-runner-abcde"}}
	runner.Status.JobRequestID, runner.Status.JobRepositoryName = 7, "acme/"+strings.Repeat("x", 80)
	return runner
}

// patchOf returns the patch of a busy runner's pod.
func patchOf(t *testing.T, pod *corev1.Pod, metadata bool) (patch []byte) {
	t.Helper()
	api := interceptor.NewClient(controllertest.NewKubernetes().Build(), interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, sent client.Patch,
			_ ...client.PatchOption,
		) (err error) {
			patch, err = sent.Data(object)
			return err
		},
	})
	marker := mark.New(mark.Options{Client: api, Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{},
		Gate: mark.NewGate(pool.New(1, clock.RealClock{})), JobMetadata: metadata})
	job := &mark.Job{Runner: newRunner(), Pod: pod, Busy: true, Written: &mark.Written{}, DeniedAt: &time.Time{}}
	if _, err := marker.Mark(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return patch
}

// managedFields double the cost of each later write of the pod. Server-side apply needs them.
func TestPodLosesTheRecordOfItsWritersUnlessSomebodyApplies(t *testing.T) {
	const busy = `"labels":{"actions.github.com/runner-busy":"true"}`
	const forgets = `{"metadata":{"annotations":{},` + busy + `,"managedFields":[{}],"uid":"pod-uid"}}`
	const keeps = `{"metadata":{"annotations":{},` + busy + `,"uid":"pod-uid"}}`
	for operation, want := range map[metav1.ManagedFieldsOperationType]string{
		"": forgets, metav1.ManagedFieldsOperationUpdate: forgets, metav1.ManagedFieldsOperationApply: keeps,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod-uid"}}
		if operation != "" {
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody", Operation: operation}}
		}
		if got := patchOf(t, pod, false); string(got) != want {
			t.Errorf("somebody's operation %q: patch %s, want %s", operation, got, want)
		}
	}
}

func TestWhatCanNotBeALabelIsLeftOut(t *testing.T) {
	var patch struct {
		Metadata struct{ Annotations, Labels map[string]any }
	}
	if err := json.Unmarshal(patchOf(t, &corev1.Pod{}, true), &patch); err != nil {
		t.Fatal(err)
	}
	annotations := patch.Metadata.Annotations
	if annotations[v1alpha1.AnnotationJobID] != "7" || annotations[v1alpha1.AnnotationJobRunID] != nil {
		t.Errorf("annotations %v, want the request's number for the job and no run", annotations)
	}
	want := map[string]any{v1alpha1.LabelJobID: "7", v1alpha1.LabelRunnerBusy: v1alpha1.RunnerBusy}
	if diff := cmp.Diff(want, patch.Metadata.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// A deferred report is reconsidered after one to two seconds.
func TestDeferredReportsAreReconsideredApart(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	seen := map[time.Time]int{}
	for i := range 1000 {
		runner := newRunner()
		runner.UID = types.UID(fmt.Sprint("uid-", i))
		at := mark.RecheckAt(runner, noon)
		if after := at.Sub(noon); after < time.Second || after >= 2*time.Second {
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

// A new pod is protected, and Karpenter counts a duration from the pod's start.
func TestNewPodsAreProtected(t *testing.T) {
	for name, test := range map[string]struct {
		metadata, protection bool
		want                 map[string]string
	}{
		"with annotations":   {true, true, map[string]string{v1alpha1.AnnotationDoNotDisrupt: "6h0m0s", v1alpha1.AnnotationSafeToEvict: "false"}},
		"without protection": {true, false, map[string]string{}},
		"without metadata":   {false, true, map[string]string{}},
	} {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Spec.JobProtection = "6h"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}}
		marker := mark.New(mark.Options{Clock: clock.RealClock{}, JobMetadata: test.metadata, JobProtection: test.protection})
		if !marker.Protect(t.Context(), set, pod) || pod.Labels[v1alpha1.LabelRunnerBusy] != v1alpha1.RunnerMayBeBusy {
			t.Errorf("%s: labels %v", name, pod.Labels)
		}
		if diff := cmp.Diff(test.want, pod.Annotations); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", name, diff)
		}
	}
}

// The pods of a job that container hooks run are the scale set's, busy, and protected like their runner.
func TestJobPodsAreProtectedLikeTheirRunner(t *testing.T) {
	for name, test := range map[string]struct {
		protection bool
		want       string
	}{
		"with protection": {true, `{"metadata":{"labels":{"actions.github.com/runner-busy":"true",` +
			`"actions.github.com/scale-set-name":"set","actions.github.com/scale-set-namespace":"runners"},` +
			`"annotations":{"cluster-autoscaler.kubernetes.io/safe-to-evict":"false",` +
			`"karpenter.sh/do-not-disrupt":"6h0m0s"}}}`},
		"without": {false, `{"metadata":{"labels":{"actions.github.com/runner-busy":"true",` +
			`"actions.github.com/scale-set-name":"set","actions.github.com/scale-set-namespace":"runners"}}}`},
	} {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Spec.JobProtection = "6h"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "runners", Annotations: map[string]string{},
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: "runners"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "runner",
			Env: []corev1.EnvVar{{Name: kube.EnvContainerHooks, Value: "/home/runner/k8s/index.js"}}}}
		marker := mark.New(mark.Options{Clock: clock.RealClock{}, JobMetadata: true, JobProtection: test.protection})
		marker.Protect(t.Context(), set, pod)
		if got := pod.Annotations[v1alpha1.AnnotationHookTemplate]; got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Once a namespace's policy has refused a protected pod, the next ones there are not protected, and that is told once.
func TestARefusalOfProtectionIsRemembered(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	marker := mark.New(mark.Options{Clock: clock.RealClock{}, Recorder: recorder})
	for range 3 {
		marker.Refused(t.Context(), newRunner(), errors.New("no such label, says a policy"))
	}
	if told := controllertest.Events(recorder); len(told) != 1 || !strings.Contains(told[0], "says a policy") {
		t.Errorf("Events %q, want one that quotes the refusal", told)
	}
	for namespace, want := range map[string]bool{newRunner().Namespace: false, "another": true} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{}}}
		if got := marker.Protect(t.Context(), &v1alpha1.AutoscalingRunnerSet{}, pod); got != want {
			t.Errorf("a new pod of namespace %s is protected: %t, want %t", namespace, got, want)
		}
	}
}
