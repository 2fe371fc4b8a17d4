package fakenode_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

func TestPodsThatDontStartSayWhy(t *testing.T) {
	unschedulable := func(pod *corev1.Pod) bool {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				return condition.Reason == corev1.PodReasonUnschedulable && condition.Message == "no room"
			}
		}
		return false
	}
	rejected := func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "OutOfcpu"
	}
	for name, test := range map[string]struct {
		fault fakenode.Fault
		want  func(*corev1.Pod) bool
	}{
		"image":         {fakenode.Fault{ImagePull: true}, waitingFor("ImagePullBackOff")},
		"never":         {fakenode.Fault{NeverStart: true}, waitingFor("ContainerCreating")},
		"reject":        {fakenode.Fault{Reject: "OutOfcpu"}, rejected},
		"unschedulable": {fakenode.Fault{Unschedulable: "no room"}, unschedulable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, testkube.Shared(t), fakenode.Options{})
			s.node.OnStart(func(*corev1.Pod) fakenode.Fault { return test.fault })
			pod := s.pod("runner")
			s.create(pod)
			s.awaits(pod, name, test.want)
			s.delete(pod)
			s.awaitsGone(pod)
		})
	}
}

func TestAnEvictedPodFails(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{})
	pod := s.pod("runner")
	s.create(pod)
	s.awaitsPhase(pod, corev1.PodRunning)
	if err := s.node.Evict(client.ObjectKeyFromObject(pod), "The node was low on resource: memory."); err != nil {
		t.Fatal(err)
	}
	s.awaits(pod, "evicted", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted" &&
			pod.Status.ContainerStatuses[0].State.Terminated != nil
	})
	if got := conditionOf(pod, corev1.DisruptionTarget); got != corev1.ConditionTrue {
		t.Errorf("condition DisruptionTarget is %q, want True", got)
	}
}

func TestAnOOMKilledRunnerFails(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{})
	pod := s.pod("runner")
	s.create(pod)
	s.awaitsPhase(pod, corev1.PodRunning)
	if err := s.node.OOMKill(client.ObjectKeyFromObject(pod), "runner"); err != nil {
		t.Fatal(err)
	}
	s.awaitsPhase(pod, corev1.PodFailed)
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
		t.Errorf("the container ended with %v, want OOMKilled and 137", ended)
	}
}

func everyPod(*corev1.Pod) bool { return true }

func TestPodsOfALostNodeStayTerminatingUntilForced(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{})
	pod := s.pod("runner")
	s.create(pod)
	s.awaits(pod, "Ready", func(pod *corev1.Pod) bool {
		return conditionOf(pod, corev1.PodReady) == corev1.ConditionTrue
	})
	if err := s.node.Lose(t.Context(), everyPod, fakenode.PowerOff); err != nil {
		t.Fatal(err)
	}
	s.awaits(pod, "not ready", func(pod *corev1.Pod) bool {
		return conditionOf(pod, corev1.PodReady) == corev1.ConditionFalse &&
			conditionOf(pod, corev1.ContainersReady) == corev1.ConditionTrue
	})
	s.delete(pod, client.GracePeriodSeconds(1))
	s.Consistently(func() error {
		return s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	}, "2s", "100ms").Should(Succeed())
	s.delete(pod, client.GracePeriodSeconds(0))
	s.awaitsGone(pod)
}

// Nobody has noticed that the node is silent, so its pod stays Ready; what has happened to the pod is reported when the
// node is back.
func TestASilentNodeTellsLate(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{})
	pod := s.pod("late")
	s.create(pod)
	s.awaitsReady(pod, 0)
	if err := s.node.Lose(t.Context(), everyPod, fakenode.Silence); err != nil {
		t.Fatal(err)
	}
	if err := s.node.Kill(client.ObjectKeyFromObject(pod), pod.Spec.Containers[0].Name); err != nil {
		t.Fatal(err)
	}
	seen := &corev1.Pod{}
	if err := testkube.Shared(t).Client().Get(t.Context(), client.ObjectKeyFromObject(pod), seen); err != nil {
		t.Fatal(err)
	}
	if seen.Status.Phase != corev1.PodRunning || conditionOf(seen, corev1.PodReady) != corev1.ConditionTrue {
		t.Errorf("while the node is silent the pod is %s, Ready %s", seen.Status.Phase,
			conditionOf(seen, corev1.PodReady))
	}
	s.node.Restore(everyPod)
	s.awaitsPhase(pod, corev1.PodFailed)
}

func TestANodeThatComesBackReportsWhatHasHappened(t *testing.T) {
	s := newStage(t, testkube.Shared(t), fakenode.Options{})
	once, always := s.pod("once"), s.pod("always")
	always.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.create(once, always)
	s.awaitsPhase(once, corev1.PodRunning)
	s.awaitsPhase(always, corev1.PodRunning)
	if err := s.node.Lose(t.Context(), everyPod, fakenode.PowerOff); err != nil {
		t.Fatal(err)
	}
	s.node.Restore(everyPod)
	s.awaitsPhase(once, corev1.PodFailed)
	s.awaits(always, "restarted and ready", func(pod *corev1.Pod) bool {
		return conditionOf(pod, corev1.PodReady) == corev1.ConditionTrue &&
			pod.Status.ContainerStatuses[0].RestartCount == 1
	})
}
