package ephemeralrunner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

func runs(p *corev1.Pod) {
	p.Spec.NodeName = "node"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.RunnerContainerName, State: running}}
}

func exits(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.RunnerContainerName,
			State: exited(code, "Error")}}
	}
}

func jobDone(r *v1alpha1.EphemeralRunner) { r.Status.JobID, r.Status.JobResult = "job", "succeeded" }

// The life of a runner that simply works costs the manager eight requests, not counting the creation by its set, and
// one call to GitHub, however often it is reconciled.
func TestLifeOfARunnerThatWorks(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.live.Reader = noReader{fixture: f}
		f.settle()
		f.setPod(runs)
		f.settle()
		if got := f.runner().Status; got.Phase != v1alpha1.EphemeralRunnerPhaseRunning || !got.Ready ||
			got.RunnerID != 101 ||
			got.ObservedGeneration != 1 {
			t.Errorf("status %+v, want Running, ready, runner 101", got)
		}
		f.setStatus(hasReportedJob)
		f.settle()
		f.setPod(exits(0))
		f.settle()
		if f.pod() != nil {
			t.Error("the pod of a runner that exited is still there")
		}
		f.setStatus(jobDone)
		f.settle()
		if f.runner() != nil || f.secret() != nil {
			t.Error("the runner or its Secret is still there")
		}
		want := "create Secret, create Pod, patch status EphemeralRunner, patch Pod, delete Secret, delete Pod, " +
			"patch EphemeralRunner, delete EphemeralRunner"
		if got := f.api.sent(); got != want {
			t.Errorf("requests\n%s, want\n%s", got, want)
		}
		f.wantCalls("jit")
		if len(f.recorder.Events) != 0 {
			t.Errorf("Event for a runner that simply succeeded: %s", <-f.recorder.Events)
		}
		f.wasGone = true
	}, newRunner())
}

func TestReportBeforeTheExitSavesWaiting(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setStatus(jobDone)
		f.settle()
		f.setPod(exits(0))
		f.settle()
		if f.runner() != nil || f.pod() != nil || f.secret() != nil {
			t.Error("something is left")
		}
		f.wantCalls("jit")
	}, newRunner())
}

func TestExitWithoutReportEndsAsSucceeded(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setPod(exits(0))
		result := f.reconcile()
		if result.RequeueAfter != rules.ReportGrace {
			t.Errorf("requeued after %s, want %s", result.RequeueAfter, rules.ReportGrace)
		}
		f.elapse(rules.ReportGrace)
		f.settle()
		if got := f.runner().Status.Phase; got != v1alpha1.EphemeralRunnerPhaseSucceeded {
			t.Errorf("phase %q, want Succeeded", got)
		}
		f.wantCalls("jit") // the set decides whether GitHub is asked
	}, newRunner())
}

func TestOutdatedRunnerIsKeptAsEvidence(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(exits(rules.ExitCodeOutdated))
		f.settle()
		status := f.runner().Status
		if status.Phase != v1alpha1.EphemeralRunnerPhaseOutdated || !strings.Contains(status.Message, "runner:1") {
			t.Errorf("status %+v, want Outdated with the image", status)
		}
		if f.pod() != nil || f.secret() != nil {
			t.Error("pod and Secret are still there")
		}
		f.wantCalls("jit", "find", "remove 101") // the image names no version
	}, newRunner())
}

// Six attempts, with the designed pauses between them; then only the object is left.
func TestPodThatNeverStartsIsTriedSixTimesWithOneRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for attempt := range 6 {
			f.settle()
			if attempt > 0 {
				f.elapse(rules.RetryBackoff[attempt-1])
				f.settle()
			}
			if f.pod() == nil {
				t.Fatalf("attempt %d: no pod", attempt+1)
			}
			f.setPod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" })
			f.settle()
		}
		status := f.runner().Status
		if status.Phase != v1alpha1.EphemeralRunnerPhaseFailed || status.Reason != "OutOfcpu" ||
			len(status.Failures) != 5 {
			t.Errorf("status %+v, want Failed for OutOfcpu", status)
		}
		if f.pod() != nil || f.secret() != nil {
			t.Error("pod and Secret are still there")
		}
		f.wantCalls("jit", "remove 101")
	}, newRunner())
}

func TestStartedRunnerWithoutAJobGetsANewRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setPod(exits(1))
		f.settle()
		f.wantCalls("jit", "remove 101")
		if got := f.runner().Status; got.RunnerID != 0 {
			t.Errorf("status %+v still names the registration that was removed", got)
		}
		f.elapse(rules.RetryBackoff[0])
		f.settle()
		f.wantCalls("jit")
		if got := string(f.secret().Data[secretKeyJITConfig]); got != "config-102" {
			t.Errorf("the new pod gets %q, want a JIT config of its own", got)
		}
		if got := f.pod().Annotations[v1alpha1.AnnotationRunnerID]; got != "102" {
			t.Errorf("runner id on the pod %s, want 102", got)
		}
		f.setPod(runs)
		f.settle()
		if got := f.runner().Status; got.Phase != v1alpha1.EphemeralRunnerPhaseRunning || got.RunnerID != 102 {
			t.Errorf("status %+v of the second attempt", got)
		}
		f.setPod(exits(1))
		f.settle()
		f.wantCalls("remove 102")
		if f.secret() != nil {
			t.Error("the second registration's Secret is left")
		}
	}, newRunner())
}

func TestStartedRunnerWithAJobFails(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.setStatus(hasReportedJob)
		f.settle()
		f.setPod(exits(137))
		f.settle()
		f.elapse(rules.FailedGrace)
		f.settle()
		if got := f.runner().Status; got.Phase != v1alpha1.EphemeralRunnerPhaseFailed || got.Reason != "Error" {
			t.Errorf("status %+v, want Failed", got)
		}
		f.wantEvent("Error")
	}, newRunner())
}

// A restart between a failure and the next step repeats nothing and starts no used JIT config again.
func TestRestartAfterTheStartDoesNotReuseTheJITConfig(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.restart()
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.wantCalls("jit", "find", "remove 101") // no pod proves the id any more
		f.elapse(rules.RetryBackoff[0])
		f.settle()
		if got := string(f.secret().Data[secretKeyJITConfig]); got != "config-102" {
			t.Errorf("the new pod gets %q", got)
		}
	}, newRunner())
}

// A pod that hangs on a lost node is given up although no event requeues its runner.
func TestLostNodeIsNoticedInTime(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.hang()
		result := f.reconcile()
		if result.RequeueAfter <= 0 || result.RequeueAfter > podstatus.StuckTimeout {
			t.Fatalf("requeued after %s, want at most %s", result.RequeueAfter, podstatus.StuckTimeout)
		}
		f.elapse(podstatus.StuckTimeout)
		f.settle()
		if got := f.runner().Status.Reason; got != "NodeLost" {
			t.Errorf("reason %q, want NodeLost", got)
		}
		if f.api.grace == nil || *f.api.grace != 0 {
			t.Errorf("the pod is given grace %v though nobody is there to end it", f.api.grace)
		}
	}, newRunner())
}

func TestTimesOutFromTheMomentThePodGotItsNode(t *testing.T) {
	pod := podWith(corev1.PodPending, corev1.ContainerState{}, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(noon.Add(time.Hour))}}
	})
	if got := podstatus.StartableSince(pod); !got.Equal(noon.Add(time.Hour)) {
		t.Errorf("start %s, want the moment it was bound", got)
	}
}

// An API server that has just started forbids what it allows a second later. A job that starts meanwhile is protected
// within seconds, and nobody is told to change anything.
func TestPassing403CostsNoProtection(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.api.refuse = map[string]error{"patch Pod": apierrors.NewForbidden(pods, name, errors.New("no"))}
		f.working()
		f.api.refuse = nil
		f.elapse(2 * time.Second)
		f.settle()
		if pod := f.pod(); pod.Labels[v1alpha1.LabelRunnerBusy] != v1alpha1.RunnerBusy {
			t.Errorf("labels %v, want the pod marked as busy", pod.Labels)
		}
		if recorded := controllertest.Events(f.recorder); len(recorded) > 0 {
			t.Errorf("Events %q", recorded)
		}
	}, newRunner())
}

// An API server that has just started forbids what it allows a second later. A used JIT config must be deleted
// nevertheless: the next pod would get it.
func TestUsedJITConfigIsNotKeptWhenItsDeletionIsForbidden(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		before := string(f.secret().Data[secretKeyRunnerID])
		f.setPod(exits(137))
		f.api.refuse = map[string]error{"delete Secret": apierrors.NewForbidden(pods, name, errors.New("no"))}
		f.reconcile()
		if _, err := f.controller.Reconcile(f.Context(),
			reconcile.Request{NamespacedName: runnerKey}); !apierrors.IsForbidden(err) {
			t.Errorf("a refused deletion is not tried again: %v", err)
		}
		f.api.refuse = nil
		f.settle()
		f.elapse(rules.RetryBackoff[0])
		f.settle()
		if secret := f.secret(); secret == nil || string(secret.Data[secretKeyRunnerID]) == before {
			t.Errorf("the second attempt has the first one's registration %s", before)
		}
	}, newRunner())
}

// The finalizers are removed and the deletion of the object fails: the next pass deletes it.
func TestRunnerWithoutFinalizersIsDeletedByTheNextPass(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.setStatus(jobDone)
		f.setPod(exits(0))
		f.api.refuse = map[string]error{"delete EphemeralRunner": errors.New("away")}
		f.reconcile()
		if _, err := f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: runnerKey}); err == nil {
			t.Error("a deletion that failed is not tried again")
		}
		if runner := f.runner(); runner == nil || len(runner.Finalizers) > 0 || f.secret() != nil || f.pod() != nil {
			t.Fatalf("runner %+v, want it without finalizers, Secret and pod", runner)
		}
		f.api.refuse = nil
		f.api.sent()
		f.restart()
		f.settle()
		if f.runner() != nil {
			t.Errorf("it is left: %s", f.api.sent())
		}
		f.wantCalls() // nobody had to be asked again
	}, newRunner())
}

// It was seen running, and its status was not written yet; then the node forgets that it had started.
func TestRunnerThatWasSeenUpGetsANewRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(func(p *corev1.Pod) { runs(p); p.Status.Conditions = nil })
		f.reconcile()
		f.setPod(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no memory"}
		})
		f.settle()
		f.wantCalls("jit", "remove 101")
		f.wantNewRegistration()
	}, newRunner())
}

// A container that has died next to the runner changes nothing, and is reported a single time.
func TestDeadSidecarIsReportedOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.setPod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: "dind", State: exited(137, "OOMKilled")})
		})
		f.settle()
		f.wantEvent("SidecarFailed")
		f.wantCalls()
		if f.pod() == nil {
			t.Error("the pod of a runner that lives is gone")
		}
	}, newRunner())
}

// A node autoscaler may add a node: the pod stays, and the scheduler's message is reported a single time.
func TestUnschedulablePodStaysAndSaysWhy(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(unscheduled)
		uid := f.pod().UID
		f.settle()
		f.elapse(rules.DefaultPendingTimeout + time.Minute)
		f.settle()
		f.wantEvent("Unschedulable")
		started := meta.FindStatusCondition(f.runner().Status.Conditions, v1alpha1.ConditionPodStarted)
		if started == nil || started.Reason != "Unschedulable" || started.Message != "0/3 nodes" {
			t.Errorf("condition %+v", started)
		}
		if pod := f.pod(); pod == nil || pod.UID != uid {
			t.Error("the pod was replaced")
		}
		f.wantCalls("jit")
	}, newRunner())
}
