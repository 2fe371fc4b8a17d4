package listenerpod_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
)

var (
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	// accountMade is the time at which the pod's ServiceAccount was created.
	accountMade = noon.Add(-2 * time.Hour)
)

// aPod returns a ready pod with the right hash after the change.
func aPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			Annotations: map[string]string{v1alpha1.AnnotationIntegrityHash: "hash"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}},
	}
	change(pod)
	return pod
}

// losesNode changes the pod as the node controller does when its node stops reporting.
func losesNode(pod *corev1.Pod, ago time.Duration) {
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-ago))
}

func notReady(pod *corev1.Pod, state corev1.ContainerState) {
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].Status = corev1.ConditionFalse
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ListenerContainerName, State: state}}
}

// endedBesideSidecar changes the pod as a kubelet does when the listener exits and another container runs on.
func endedBesideSidecar(policy corev1.RestartPolicy, code int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		notReady(pod, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code,
			Reason: "OOMKilled"}})
		pod.Spec.RestartPolicy, pod.Spec.Containers = policy,
			[]corev1.Container{{Name: v1alpha1.ListenerContainerName}, {Name: "sidecar"}}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
}

// deletedAt changes the pod as a deletion does that gives it a minute to end.
func deletedAt(pod *corev1.Pod, end time.Time) {
	at := metav1.NewTime(end)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, new(int64(60))
}

func TestAssess(t *testing.T) {
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   listenerpod.State
	}{
		"ready":           {func(*corev1.Pod) {}, listenerpod.State{Ready: true, Reason: listenerpod.ReasonReady}},
		"of another spec": {func(p *corev1.Pod) { p.Annotations = nil }, listenerpod.State{Action: listenerpod.Replace, Reason: listenerpod.ReasonReplacing}},
		"evicted":         {func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }, listenerpod.State{Action: listenerpod.DeleteEnded, Reason: "Evicted"}},
		"node removed": {func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					Reason: "DeletionByPodGC"})
		}, listenerpod.State{Action: listenerpod.DeleteEnded, Reason: "DeletionByPodGC"}},
		"exited":                           {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, listenerpod.State{Action: listenerpod.DeleteEnded, Reason: "PodFailed"}},
		"node just lost":                   {func(p *corev1.Pod) { losesNode(p, 4*time.Second) }, listenerpod.State{Reason: v1alpha1.ReasonNodeLost, RequeueAfter: 6 * time.Second}},
		"node lost by a clock ahead":       {func(p *corev1.Pod) { losesNode(p, -time.Hour) }, listenerpod.State{Action: listenerpod.ForceDelete, Reason: v1alpha1.ReasonNodeLost}},
		"node lost by a clock a bit ahead": {func(p *corev1.Pod) { losesNode(p, -time.Second) }, listenerpod.State{Reason: v1alpha1.ReasonNodeLost, RequeueAfter: listenerpod.LostTimeout + time.Second}},
		"node lost":                        {func(p *corev1.Pod) { losesNode(p, listenerpod.LostTimeout) }, listenerpod.State{Action: listenerpod.ForceDelete, Reason: v1alpha1.ReasonNodeLost}},
		"readiness gate": {func(p *corev1.Pod) {
			losesNode(p, time.Hour)
			p.Spec.ReadinessGates = make([]corev1.PodReadinessGate, 1)
		}, listenerpod.State{Reason: listenerpod.ReasonStarting}},
		"terminating, node lost": {func(p *corev1.Pod) { deletedAt(p, noon.Add(time.Minute)); losesNode(p, 0) }, listenerpod.State{Action: listenerpod.ForceDelete, Reason: listenerpod.ReasonReplacing}},
		"creating":               {func(p *corev1.Pod) { notReady(p, waiting("ContainerCreating")) }, listenerpod.State{Reason: listenerpod.ReasonStarting}},
		"crashing":               {func(p *corev1.Pod) { notReady(p, waiting("CrashLoopBackOff")) }, listenerpod.State{Reason: "CrashLoopBackOff"}},
		"no image":               {func(p *corev1.Pod) { notReady(p, waiting("ImagePullBackOff")) }, listenerpod.State{Reason: "ImagePullBackOff"}},
		"no session": {func(p *corev1.Pod) {
			notReady(p, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		}, listenerpod.State{Reason: v1alpha1.ReasonListenerNotListening}},
		"unschedulable": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "no nodes"}}
		}, listenerpod.State{Reason: "Unschedulable"}},
		"just made":                  {func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }, listenerpod.State{Reason: listenerpod.ReasonStarting}},
		"as old as its account":      {func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(accountMade) }, listenerpod.State{Ready: true, Reason: listenerpod.ReasonReady}},
		"older than its account":     {func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(accountMade.Add(-time.Second)) }, listenerpod.State{Action: listenerpod.Replace, Reason: listenerpod.ReasonReplacing}},
		"ended beside a sidecar":     {endedBesideSidecar(corev1.RestartPolicyNever, 137), listenerpod.State{Action: listenerpod.DeleteEnded, Reason: "PodFailed"}},
		"restarted beside a sidecar": {endedBesideSidecar(corev1.RestartPolicyAlways, 137), listenerpod.State{Reason: listenerpod.ReasonStarting}},
		"done beside a sidecar":      {endedBesideSidecar(corev1.RestartPolicyOnFailure, 0), listenerpod.State{Action: listenerpod.DeleteEnded, Reason: "PodFailed"}},
		"failed beside a sidecar":    {endedBesideSidecar(corev1.RestartPolicyOnFailure, 1), listenerpod.State{Reason: listenerpod.ReasonStarting}},
		"restarted by its container's policy": {func(p *corev1.Pod) {
			endedBesideSidecar(corev1.RestartPolicyNever, 1)(p)
			p.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
		}, listenerpod.State{Reason: listenerpod.ReasonStarting}},
		"restarted by a rule, perhaps": {func(p *corev1.Pod) {
			endedBesideSidecar(corev1.RestartPolicyNever, 1)(p)
			p.Spec.Containers[0].RestartPolicyRules = make([]corev1.ContainerRestartRule, 1)
		}, listenerpod.State{Reason: listenerpod.ReasonStarting}},
	} {
		t.Run(name, func(t *testing.T) {
			got := listenerpod.Assess(aPod(test.change), listenerpod.Demand{Hash: "hash", Since: accountMade},
				noon, noon)
			if !got.Ready && got.Message == "" {
				t.Error("there is no message")
			}
			got.Message = ""
			if got != test.want {
				t.Errorf("listenerpod.Assess() = %+v, want %+v", got, test.want)
			}
		})
	}
}

// However far the API server's clock is from ours, a pod has its grace period, and no more than LostTimeout beyond it.
func TestTerminatingPodHasItsGracePeriodByOurClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"as ours": 0, "behind": -time.Hour, "ahead": time.Hour} {
		pod := aPod(func(p *corev1.Pod) { deletedAt(p, noon.Add(time.Minute+ahead)) })
		for elapsed, want := range map[time.Duration]listenerpod.State{
			0:                                     {RequeueAfter: time.Minute + listenerpod.LostTimeout},
			time.Minute:                           {RequeueAfter: listenerpod.LostTimeout},
			time.Minute + listenerpod.LostTimeout: {Action: listenerpod.ForceDelete},
		} {
			got := listenerpod.Assess(pod, listenerpod.Demand{Hash: "hash"}, noon, noon.Add(elapsed))
			if got.Action != want.Action || got.RequeueAfter != want.RequeueAfter ||
				got.Reason != listenerpod.ReasonReplacing {
				t.Errorf("API server's clock %s, after %s: %+v, want %+v", name, elapsed, got, want)
			}
		}
	}
}

// To delete such a pod by force would change nothing.
func TestTerminatingPodThatSomebodyKeepsIsLeftAndSaid(t *testing.T) {
	pod := aPod(func(p *corev1.Pod) {
		deletedAt(p, noon.Add(time.Minute))
		p.Finalizers = []string{"example.com/hold"}
	})
	got := listenerpod.Assess(pod, listenerpod.Demand{Hash: "hash"}, noon, noon.Add(time.Minute))
	if got.Reason != listenerpod.ReasonReplacing || got.RequeueAfter != listenerpod.LostTimeout {
		t.Errorf("within its time: %+v", got)
	}
	got = listenerpod.Assess(pod, listenerpod.Demand{Hash: "hash"}, noon,
		noon.Add(time.Minute+listenerpod.LostTimeout))
	if got.Action != listenerpod.Keep || got.Reason != v1alpha1.ReasonPodTerminating ||
		!strings.Contains(got.Message, "example.com/hold") {
		t.Errorf("%+v, want it left, and who keeps it", got)
	}
}

func TestCrashLoopSaysHowOftenAndWhereToLook(t *testing.T) {
	pod := aPod(func(p *corev1.Pod) {
		notReady(p, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
		p.Status.ContainerStatuses[0].RestartCount = 4
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137,
			Reason: "OOMKilled"}
	})
	message := listenerpod.Assess(pod, listenerpod.Demand{Hash: "hash"}, noon, noon).Message
	for _, part := range []string{"4 restarts", "137", "OOMKilled", "kubectl logs -n ns pod -c listener --previous"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q does not say %q", message, part)
		}
	}
}
