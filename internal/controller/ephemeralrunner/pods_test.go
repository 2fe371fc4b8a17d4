package ephemeralrunner

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/kube"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// podWith returns a pod whose runner container has the given state.
func podWith(phase corev1.PodPhase, state corev1.ContainerState, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "pod-uid", CreationTimestamp: metav1.NewTime(noon)},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner:1"}}},
		Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{
			{Name: v1alpha1.RunnerContainerName, State: state}, {Name: "dind"},
		}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func exited(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(noon), FinishedAt: metav1.NewTime(noon.Add(time.Minute))}}
}

func unstarted(code int32, reason string, started time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(started)}}
}

func waitingFor(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}
}

var running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}

func deletedAt(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(at)) }
}

func unscheduled(p *corev1.Pod) {
	p.Spec.NodeName = ""
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
}

// initWaits adds a sidecar that is waiting, after an init container that has finished.
func initWaits(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: exited(0, "Completed")}, {Name: "dind", State: waitingFor(reason)}}
	}
}

// Keys of the Secret that holds a runner's registration.
const (
	secretKeyJITConfig  = "jitToken"
	secretKeyRunnerName = "runnerName"
	secretKeyRunnerID   = "runnerId"
)

// newPod returns the pod that a manager creates for a runner with that id on GitHub.
func newPod(runner *v1alpha1.EphemeralRunner, id int, version string) *corev1.Pod {
	pod := launch.SamplePod(runner, version)
	pod.Annotations[v1alpha1.AnnotationRunnerID] = strconv.Itoa(id)
	return pod
}

// newSecret returns the Secret that a manager creates for a runner with that id on GitHub.
func newSecret(runner *v1alpha1.EphemeralRunner, id int, config string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: runner.Namespace, Name: runner.Name, OwnerReferences: kube.OwnedBy(runner),
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: runner.Namespace},
		},
		Data: map[string][]byte{
			secretKeyJITConfig: []byte(config), secretKeyRunnerName: []byte(runner.Name), secretKeyRunnerID: []byte(strconv.Itoa(id)),
		},
	}
}
