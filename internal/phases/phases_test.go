package phases_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/phases"
)

const noon = 1_800_000_000

// at returns a time some seconds after noon.
func at(seconds int64) *metav1.Time { return new(metav1.Unix(noon+seconds, 0)) }

func runningSince(name string, seconds int64) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *at(seconds)}}}
}

func endedAfter(name string, seconds int64) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: *at(seconds)}}}
}

// newPod returns a pod that was registered after 2 s and placed on a node after 10 s, with change applied.
func newPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.AnnotationPhases: "created=1800000000 registered=1800000002"}}}
	pod.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner:1"}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *at(10)}}
	change(pod)
	return pod
}

func newRunner() *v1alpha1.EphemeralRunner {
	runner := &v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *at(0)}}
	runner.Status.Phases = &v1alpha1.RunnerPhases{Queued: at(-20), Assigned: at(-5), Started: at(40), ContainerUp: at(-99)}
	return runner
}

func TestPhasesAreReadFromRunnerAndPod(t *testing.T) {
	known := v1alpha1.RunnerPhases{Queued: at(-20), Assigned: at(-5), Created: at(0), Registered: at(2),
		Placed: at(10), Started: at(40)}
	with := func(imagePulled, containerUp *metav1.Time) v1alpha1.RunnerPhases {
		want := known
		want.ImagePulled, want.ContainerUp = imagePulled, containerUp
		return want
	}
	unplaced := known
	unplaced.Placed = nil
	for title, test := range map[string]struct {
		pod  *corev1.Pod
		want v1alpha1.RunnerPhases
	}{
		"pulling": {newPod(func(*corev1.Pod) {}), known},
		"not placed": {newPod(func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		}), unplaced},
		"up": {newPod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{runningSince(v1alpha1.RunnerContainerName, 30)}
		}), with(at(30), at(30))},
		"ended": {newPod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{endedAfter(v1alpha1.RunnerContainerName, 30)}
		}), with(at(30), at(30))},
		"an init container has the same image": {newPod(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "other"},
				{Name: "init-dind-externals", Image: "runner:1"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{endedAfter("first", 12),
				endedAfter("init-dind-externals", 25)}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{runningSince(v1alpha1.RunnerContainerName, 30)}
		}), with(at(25), at(30))},
		"containerd dates what could not start to 1970": {newPod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{endedAfter(v1alpha1.RunnerContainerName, -noon)}
		}), known},
		"no pod": {nil, v1alpha1.RunnerPhases{Queued: at(-20), Assigned: at(-5), Started: at(40), ContainerUp: at(-99)}},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(&test.want, phases.Of(newRunner(), test.pod)); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitsAddUpToTheWholeWait(t *testing.T) {
	for title, test := range map[string]struct {
		reached *v1alpha1.RunnerPhases
		want    []phases.Wait
	}{
		"a new runner": {
			&v1alpha1.RunnerPhases{Queued: at(-20), Assigned: at(-5), Created: at(0), Registered: at(2),
				Placed: at(10), ImagePulled: at(30), ContainerUp: at(31), Started: at(40)},
			[]phases.Wait{{"assigned", 15 * time.Second}, {"created", 5 * time.Second},
				{"registered", 2 * time.Second}, {"placed", 8 * time.Second}, {"imagePulled", 20 * time.Second},
				{"containerUp", time.Second}, {"started", 9 * time.Second}},
		},
		"a runner that was idle": {
			&v1alpha1.RunnerPhases{Queued: at(100), Assigned: at(101), Created: at(0), Placed: at(10),
				ContainerUp: at(30), Started: at(103)},
			[]phases.Wait{{"assigned", time.Second}, {"created", 0}, {"placed", 0}, {"containerUp", 0},
				{"started", 2 * time.Second}},
		},
		"a node whose clock is behind": {
			&v1alpha1.RunnerPhases{Assigned: at(0), Placed: at(10), ContainerUp: at(-3000), Started: at(12)},
			[]phases.Wait{{"placed", 10 * time.Second}, {"containerUp", 0}, {"started", 2 * time.Second}},
		},
		"nobody knows when it was queued": {&v1alpha1.RunnerPhases{Created: at(0), ContainerUp: at(30), Started: at(9000)}, nil},
		"nothing is known":                {nil, nil},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(test.want, phases.Waits(test.reached)); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// Whoever may write pods can write anything into the annotation.
func TestAnnotationIsReadWithCare(t *testing.T) {
	if got := phases.Text(&v1alpha1.RunnerPhases{Created: at(0), Started: at(7)}); got !=
		"created=1800000000 started=1800000007" {
		t.Errorf("text %q", got)
	}
	for _, text := range []string{"", "registered", "registered=", "registered=x", "registered=-1",
		"registered=99999999999999999999", "registered=253402300800",
		strings.Repeat("a=1 ", 1000) + "registered=1800000002"} {
		pod := newPod(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationPhases] = text })
		if got := phases.Of(newRunner(), pod).Registered; got != nil {
			t.Errorf("%.40q says %s", text, got)
		}
	}
}
