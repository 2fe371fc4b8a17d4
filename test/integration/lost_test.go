package integration

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// Jobs lose their pods in every way that a cluster has for it, and one keeps its pod: each loss is told a single time,
// with its cause, also by a manager that is killed right after.
func TestEveryLostJobIsTold(t *testing.T) {
	// Evictions are not to wait.
	r := rig.Start(t, testkube.Borrow(t),
		rig.Options{MaxRunners: 10, ScaleSetValues: rig.Values{"protectRunners": "None"}})
	api := r.Cluster.Client()
	strikes := map[v1alpha1.LostCause][]func(*corev1.Pod) error{
		"Evicted": {
			func(pod *corev1.Pod) error {
				return api.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{ObjectMeta: pod.ObjectMeta})
			},
			func(pod *corev1.Pod) error {
				return r.Node.Evict(client.ObjectKeyFromObject(pod), "The node was low on resource: ephemeral-storage.")
			},
		},
		"PodDeleted": {
			func(pod *corev1.Pod) error { return api.Delete(t.Context(), pod) },
			func(pod *corev1.Pod) error { return api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)) },
		},
		"OOMKilled": {func(pod *corev1.Pod) error {
			return r.Node.OOMKill(client.ObjectKeyFromObject(pod), v1alpha1.RunnerContainerName)
		}},
		"ContainerFailed": {func(pod *corev1.Pod) error {
			return r.Node.Kill(client.ObjectKeyFromObject(pod), v1alpha1.RunnerContainerName)
		}},
	}
	losses := 0
	for _, ways := range strikes {
		losses += len(ways)
	}
	r.QueueJobs(losses, time.Hour)
	busy := func() (pods []corev1.Pod) {
		for _, pod := range r.RunnerPods() {
			if pod.Annotations[v1alpha1.AnnotationJobID] != "" && pod.DeletionTimestamp == nil {
				pods = append(pods, pod)
			}
		}
		return pods
	}
	eventually := gomega.NewWithT(t).Eventually
	eventually(busy, rig.Patience).Should(gomega.HaveLen(losses))
	works := r.QueueJobs(1, 20*time.Second)
	want := map[string]v1alpha1.LostCause{}
	pods := busy()
	for _, cause := range slices.Sorted(maps.Keys(strikes)) {
		for _, strike := range strikes[cause] {
			pod := pods[0]
			pods = pods[1:]
			want[pod.Name] = cause
			if err := strike(&pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(func() (map[string]v1alpha1.LostCause, error) { return r.LostJobs(t.Context()) }, rig.Patience).
		Should(gomega.Equal(want))
	r.KillManager()
	set := &v1alpha1.AutoscalingRunnerSet{}
	counted := func() (int, error) {
		err := api.Get(t.Context(), types.NamespacedName{Namespace: r.RunnerNamespace, Name: rig.DefaultSet}, set)
		return set.Status.LostJobs, err
	}
	eventually(counted, rig.Patience).Should(gomega.Equal(losses))
	r.WaitDone(works)
	told := lossesTold(t, r, set.UID, want)
	t.Logf("%d of %d losses have an Event; the manager was killed while it wrote them", told, losses)
	if got, err := counted(); err != nil || got != losses {
		t.Errorf("%d lost jobs are counted, %v; want %d", got, err, losses)
	}
}

// lossesTold returns the number of losses that have an Event on the set, and checks the text of each.
func lossesTold(t *testing.T, r *rig.Rig, set types.UID, want map[string]v1alpha1.LostCause) int {
	t.Helper()
	var events eventsv1.EventList
	if err := r.Cluster.Client().List(t.Context(), &events, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, event := range events.Items {
		if event.Reason == "JobLost" && event.Regarding.Kind == "AutoscalingRunnerSet" && event.Regarding.UID == set &&
			event.Related != nil {
			told[event.Related.Name]++
			if cause := want[event.Related.Name]; !strings.Contains(event.Note, string(cause)) ||
				!strings.Contains(event.Note, "run it again") {
				t.Errorf("the Event about %s says %q, want %s and what to do", event.Related.Name, event.Note, cause)
			}
		}
	}
	for runner, times := range told {
		if times != 1 || want[runner] == "" {
			t.Errorf("runner %s is told %d times, its loss is %q", runner, times, want[runner])
		}
	}
	return len(told)
}
