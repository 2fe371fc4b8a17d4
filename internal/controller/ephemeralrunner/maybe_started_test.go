package ephemeralrunner_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
)

// What happens to a runner container if nobody knows whether it has started.

func cannotStart(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "node"
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: v1alpha1.RunnerContainerName, State: waitingFor(reason)}}
	}
}

// wantNewRegistration expects a second attempt with its own JIT config.
func (f *fixture) wantNewRegistration() {
	f.Helper()
	f.elapse(rules.RetryBackoff[0])
	f.settle()
	if secret := f.secret(); secret == nil || string(secret.Data[secretKeyJITConfig]) != "config-102" {
		f.Errorf("Secret of the second attempt: %+v", secret)
	}
	if pod := f.pod(); pod == nil || pod.Annotations[v1alpha1.AnnotationRunnerID] != "102" {
		f.Errorf("pod of the second attempt: %+v", pod)
	}
}

// Without its Secret the container can't be configured; if the Secret lacks its key the kubelet reports the same.
func TestDeletedJITSecretIsReplaced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		if err := f.api.WithWatch.Delete(t.Context(), f.secret()); err != nil {
			t.Fatal(err)
		}
		f.setPod(cannotStart("CreateContainerConfigError"))
		f.settle()
		f.elapse(rules.CreateContainerTimeout)
		f.settle()
		if f.pod() != nil {
			t.Error("the pod without a Secret is still there")
		}
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// A pod that was rejected and will not run keeps its registration, unless its Secret can't be used.
func TestCorruptedJITSecretIsReplaced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		secret := f.secret()
		secret.Data = map[string][]byte{secretKeyRunnerID: []byte("none")}
		if err := f.api.WithWatch.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		f.setPod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" })
		f.settle()
		f.elapse(rules.RetryBackoff[0])
		f.settle() // the name is taken: by ourselves, as GitHub says
		f.elapse(rules.FirstRetryBackoff)
		f.settle()
		f.wantCalls("jit", "jit", "find", "remove 101", "jit")
		if got := string(f.secret().Data[secretKeyJITConfig]); got != "config-102" {
			t.Errorf("JIT config %q, want a new one", got)
		}
	}, newRunner())
}

// The kubelet has started the container after all, and it has a job: GitHub says so.
func TestBlockedPodThatStartedAfterAllKeepsItsJob(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.github.remove = actions.ErrJobStillRunning
		f.setPod(cannotStart("ImagePullBackOff"))
		f.settle()
		if f.pod() == nil {
			t.Fatal("the pod is deleted though its runner has a job")
		}
		f.setPod(runs)
		f.setStatus(hasReportedJob)
		f.settle()
		if got := f.runner().Status; f.pod() == nil || got.Phase != v1alpha1.EphemeralRunnerPhaseRunning {
			t.Errorf("status %+v, want Running", got)
		}
	}, newRunner())
}

// A kubelet that lacks the Secret says so and retries by itself. Only if that lasts does another pod have a better
// chance.
func TestContainerThatIsCreatedAtTheSecondTryKeepsItsRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(cannotStart("CreateContainerConfigError"))
		f.settle()
		f.elapse(rules.CreateContainerTimeout - time.Second)
		f.settle()
		f.wantCalls("jit")
		f.setPod(runs)
		f.settle()
		if got := f.runner().Status; len(got.Failures) != 0 || got.Phase != v1alpha1.EphemeralRunnerPhaseRunning {
			t.Errorf("status %+v, want Running without a failure", got)
		}
	}, newRunner())
}

func TestContainerThatIsNeverCreatedIsTriedInAnotherPod(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(cannotStart("CreateContainerConfigError"))
		f.settle()
		f.elapse(rules.CreateContainerTimeout)
		f.settle()
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// It started just as its registration was removed: GitHub has no job for it, and it would exit immediately.
func TestBlockedPodThatStartedTooLateIsReplaced(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(cannotStart("ImagePullBackOff"))
		f.reconcile() // asks
		f.setPod(exits(0))
		f.settle()
		if status := f.runner().Status; len(status.Failures) != 1 || status.Reason != "StartedLate" {
			t.Errorf("status %+v, want one failed attempt", status)
		}
		f.wantNewRegistration()
	}, newRunner())
}

// The pod is deleted by hand before it was seen running: nobody knows whether it had started.
func TestVanishedPodGetsANewRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.reconcile()
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// hold gives the pod exactly these finalizers.
func (f *fixture) hold(finalizers ...string) {
	f.Helper()
	pod := f.pod()
	pod.Finalizers = finalizers
	if err := f.api.WithWatch.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// Deleted by hand while idle: the runner takes that as its end and exits with 0.
func TestIdleRunnerWhosePodIsDeletedGetsANewRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.hold("example.com/kubelet") // which removes the pod when its container has ended
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.setPod(exits(0))
		f.setPod(func(p *corev1.Pod) {
			kube.ContainerStatus(p, v1alpha1.RunnerContainerName).State.Terminated.FinishedAt = *p.DeletionTimestamp
		})
		f.settle()
		f.hold()
		f.settle()
		f.wantAttempts(1, v1alpha1.ReasonPodLost)
		f.wantNewRegistration()
	}, newRunner())
}

// Deleted by hand in the middle of a job: the runner has failed, and a new one is created if there is still demand.
func TestPodDeletedWhileBusyFailsTheRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.setStatus(hasReportedJob)
		f.settle()
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.elapse(rules.SilentGrace)
		f.settle()
		if got := f.runner().Status; got.Phase != v1alpha1.EphemeralRunnerPhaseFailed || got.Reason != "PodLost" {
			t.Errorf("status %+v, want Failed for PodLost", got)
		}
	}, newRunner())
}
