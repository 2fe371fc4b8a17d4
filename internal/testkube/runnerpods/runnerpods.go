// Package runnerpods has the pods that the tests of podstatus and of runners are about.
package runnerpods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Noon is the time at which pods are created and their containers start.
var Noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Running is the state of a container that runs.
var Running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(Noon)}}

// With returns a pod whose runner container has the given state.
func With(phase corev1.PodPhase, state corev1.ContainerState, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "arc-runners",
			Name:              "set-runner-abcde",
			UID:               "pod-uid",
			CreationTimestamp: metav1.NewTime(Noon),
		},
		Spec: corev1.PodSpec{
			NodeName:   "node",
			Containers: []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: "runner:1"}},
		},
		Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{
			{Name: v1alpha1.RunnerContainerName, State: state}, {Name: "dind"},
		}},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// Exited is the state of a container that has run for a minute.
func Exited(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(Noon),
		FinishedAt: metav1.NewTime(Noon.Add(time.Minute))}}
}

// Unstarted is the state of a container that has ended, and whose time of start may be a false one.
func Unstarted(code int32, reason string, started time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode:  code,
		Reason:    reason,
		StartedAt: metav1.NewTime(started),
	}}
}

// WaitingFor is the state of a container that has not started.
func WaitingFor(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}
}

// DeletedAt gives a pod a deletionTimestamp.
func DeletedAt(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(at)) }
}

// Unscheduled takes a pod's node, for which the scheduler finds none.
func Unscheduled(p *corev1.Pod) {
	p.Spec.NodeName = ""
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
}

// InitWaits adds a sidecar that is waiting, after an init container that has finished.
func InitWaits(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: Exited(0, "Completed")},
			{Name: "dind", State: WaitingFor(reason)}}
	}
}
