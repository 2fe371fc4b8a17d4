package soak

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// The runner of one of failEvery jobs fails before it takes the job.
const failEvery = 20

// play moves a runner's pod one step ahead: it starts, takes a job or fails, and ends with its job.
func (s *site) play(runner *v1alpha1.EphemeralRunner) {
	s.Helper()
	pod := &corev1.Pod{}
	if runner.DeletionTimestamp != nil || !controllertest.Read(s, s.api, client.ObjectKeyFromObject(runner), pod) {
		return
	}
	ends, busy := s.running[runner.Name]
	switch {
	case pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending:
		s.write(pod, corev1.PodRunning,
			corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	case pod.Status.Phase != corev1.PodRunning:
	case busy && s.steps >= ends:
		s.completed(runner.Name)
		s.end(pod, 0)
	case !busy && len(s.waiting) > 0:
		s.offer(runner.Name, pod)
	}
}

// offer lets the runner take the oldest job. For every twentieth job the runner fails a single time instead; the
// runner's next attempt, or another runner, takes the job.
func (s *site) offer(name string, pod *corev1.Pod) {
	s.Helper()
	job := s.waiting[0]
	if job%failEvery == 0 && job != s.failed {
		s.failed = job
		s.end(pod, 1)
		return
	}
	s.waiting = s.waiting[1:]
	s.started(name, job)
}

// end ends the container with an exit code.
func (s *site) end(pod *corev1.Pod, code int32) {
	s.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	s.write(pod, phase,
		corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}})
}

// write writes the pod's status as a kubelet does.
func (s *site) write(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	s.Helper()
	ready := state.Running != nil
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.RunnerContainerName, Ready: ready,
		Started: &ready, State: state}}
	if err := s.api.Status().Update(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
}
