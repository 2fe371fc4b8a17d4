package leases_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// What kubelets and the controller that attaches volumes say.
const (
	saysVolume  = `MountVolume.SetUp failed for volume "pvc-1" : rpc error: code = Internal desc = no such device`
	saysAttach  = `AttachVolume.Attach failed for volume "pvc-1" : rpc error: code = DeadlineExceeded`
	saysSummary = `Unable to attach or mount volumes: unmounted volumes=[kube-api-access-x cache], ` +
		`unattached volumes=[], failed to process volumes=[]: context deadline exceeded`
	saysToken = `MountVolume.SetUp failed for volume "kube-api-access-x" : ` +
		`failed to sync configmap cache: timed out waiting for the condition`
	saysOthers = `Unable to attach or mount volumes: unmounted volumes=[kube-api-access-x], ` +
		`unattached volumes=[cache], failed to process volumes=[]: context deadline exceeded`
	saysLonger = `MountVolume.SetUp failed for volume "pvc-11" : rpc error`
)

// said returns an Event about a pod that was first said now, and again after a time.
func said(pod *corev1.Pod, reason, message string, again time.Duration) corev1.Event {
	first := time.Now()
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod.Name, UID: pod.UID}, Reason: reason,
		Message:        message,
		FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(first.Add(again)),
	}
}

// Only a claim's own volume, of which a node still says after a minute that it can't attach or mount it, keeps a pod
// from starting.
func TestAClaimThatCantBeMounted(t *testing.T) {
	waiting := func(reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{
				{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	condition := func(status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: status}}
		}
	}
	nothing := func(*corev1.Pod) {}
	for name, test := range map[string]struct {
		reason, message string
		again           time.Duration
		then            func(*corev1.Pod)
		want            volumeclaims.FailureKind
	}{
		"its volume":                   {"FailedMount", saysVolume, time.Minute, nothing, volumeclaims.Unmounted},
		"it can't be attached":         {"FailedAttachVolume", saysAttach, time.Minute, nothing, volumeclaims.Unmounted},
		"its name in the pod":          {"FailedMount", saysSummary, 2 * time.Minute, nothing, volumeclaims.Unmounted},
		"it is being created still":    {"FailedMount", saysVolume, time.Minute, waiting("ContainerCreating"), volumeclaims.Unmounted},
		"it has no sandbox":            {"FailedMount", saysVolume, time.Minute, condition(corev1.ConditionFalse), volumeclaims.Unmounted},
		"its volume, once":             {"FailedMount", saysVolume, 0, nothing, ""},
		"its volume, for some seconds": {"FailedMount", saysVolume, 59 * time.Second, nothing, ""},
		"its token":                    {"FailedMount", saysToken, time.Hour, nothing, ""},
		"another volume":               {"FailedMount", saysLonger, time.Hour, nothing, ""},
		"others, while it is attached": {"FailedMount", saysOthers, time.Hour, nothing, ""},
		"no words that anybody knows":  {"FailedMount", "unmounted volumes=[cache", time.Hour, nothing, ""},
		"over: it has a sandbox":       {"FailedMount", saysVolume, time.Minute, condition(corev1.ConditionTrue), ""},
		"over: an image is not there":  {"FailedMount", saysVolume, time.Minute, waiting("ImagePullBackOff"), ""},
		"over: an init container began": {"FailedMount", saysVolume, time.Minute, func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *leases.Leases) {
				runner := newRunner("r")
				pod := podOf(runner, bound)
				l.Put(runner)
				showPod(l, pod)
				event := said(pod, test.reason, test.message, test.again)
				<-time.After(2 * time.Minute)
				claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: claimName}}
				claim.Spec.VolumeName = "pvc-1"
				l.RememberMountEvents(scaleSet, []corev1.Event{event}, []corev1.PersistentVolumeClaim{claim})
				showPod(l, podOf(runner, bound, test.then))
				if got := l.World(newSet(), nil).Runners[0].Failure; got.Kind != test.want {
					t.Errorf("failure %+v, want %q", got, test.want)
				}
			})
		})
	}
}

// A pod that has a node and not its volumes is slow: only then it is asked whether it can't mount them.
func TestSlowPodsAreAskedAbout(t *testing.T) {
	inBubble(t, func(t *testing.T, l *leases.Leases) {
		runner := newRunner("r")
		l.Put(runner)
		showPod(l, podOf(runner, bound))
		if slow, due := l.Slow(scaleSet, time.Minute); slow || !due.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("slow: %t, due %s", slow, due)
		}
		<-time.After(time.Minute)
		if slow, _ := l.Slow(scaleSet, time.Minute); !slow {
			t.Error("a pod that has had a node for a minute is not slow")
		}
		pulls := func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
		}
		showPod(l, podOf(runner, bound, pulls))
		if slow, _ := l.Slow(scaleSet, time.Minute); slow {
			t.Error("a pod that has its volumes is slow")
		}
	})
}
