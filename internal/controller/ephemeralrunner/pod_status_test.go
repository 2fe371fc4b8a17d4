package ephemeralrunner_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/pool"
)

// Pod statuses that no ordinary kubelet writes: late, out of order, incomplete, from virtual nodes or written by hand.

// statusOf returns a function that writes a whole status, with the given states of the runner container, or none.
func statusOf(phase corev1.PodPhase, states ...corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: phase}
		for _, state := range states {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: v1alpha1.RunnerContainerName, State: state})
		}
	}
}

// restarted writes that the runner container has run before, as if something had restarted it in its pod.
func restarted(state corev1.ContainerState, code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		statusOf(corev1.PodRunning, state)(p)
		status := kube.ContainerStatus(p, v1alpha1.RunnerContainerName)
		status.RestartCount, status.LastTerminationState = 3, exited(code, "Error")
	}
}

// initAgain writes that init containers run another time, as after the loss of the pod's sandbox.
func initAgain(p *corev1.Pod) {
	statusOf(corev1.PodPending, waitingFor("PodInitializing"))(p)
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "init", State: running, RestartCount: 2, LastTerminationState: exited(1, "Error")},
		{Name: "sidecar", State: exited(1, "Error"), RestartCount: 7},
	}
}

// vague are statuses that do not say that the runner container has ended.
var vague = map[string]func(*corev1.Pod){
	"no phase, no statuses":       statusOf(""),
	"Pending, no statuses":        statusOf(corev1.PodPending),
	"Running, no statuses":        statusOf(corev1.PodRunning),
	"Unknown, no statuses":        statusOf(corev1.PodUnknown),
	"Running, no state":           statusOf(corev1.PodRunning, corev1.ContainerState{}),
	"Unknown, running":            statusOf(corev1.PodUnknown, running),
	"Pending, running":            statusOf(corev1.PodPending, running),
	"Succeeded, running":          statusOf(corev1.PodSucceeded, running),
	"Running, being created":      statusOf(corev1.PodRunning, waitingFor("ContainerCreating")),
	"Running, image can't be had": statusOf(corev1.PodRunning, waitingFor("ImagePullBackOff")),
	"Running, waits to restart":   restarted(waitingFor("CrashLoopBackOff"), 1),
	"Running, was restarted":      restarted(running, 0),
	"Running, another's state": func(p *corev1.Pod) {
		statusOf(corev1.PodRunning, exited(0, "Completed"))(p)
		kube.ContainerStatus(p, v1alpha1.RunnerContainerName).Name = "other"
	},
	"init containers run again":    initAgain,
	"Running, two states of one":   statusOf(corev1.PodRunning, running, exited(0, "Completed")),
	"a phase that nobody has made": statusOf("Sleeping", running),
}

// over are statuses that say, clearly or not, that the pod has ended.
var over = map[string]func(*corev1.Pod){
	"Succeeded, no statuses":      statusOf(corev1.PodSucceeded),
	"Succeeded, no state":         statusOf(corev1.PodSucceeded, corev1.ContainerState{}),
	"Succeeded, being created":    statusOf(corev1.PodSucceeded, waitingFor("ContainerCreating")),
	"Succeeded, exit 1":           statusOf(corev1.PodSucceeded, exited(1, "Error")),
	"Failed, no statuses":         statusOf(corev1.PodFailed),
	"Failed, no state":            statusOf(corev1.PodFailed, corev1.ContainerState{}),
	"Failed, running":             statusOf(corev1.PodFailed, running),
	"Failed, being created":       statusOf(corev1.PodFailed, waitingFor("ContainerCreating")),
	"Failed, exit 0":              statusOf(corev1.PodFailed, exited(0, "Completed")),
	"Failed, exit 0, never began": statusOf(corev1.PodFailed, unstarted(0, "Completed", time.Time{})),
	"Running, exit 0":             statusOf(corev1.PodRunning, exited(0, "Completed")),
	"Unknown, exit 0":             statusOf(corev1.PodUnknown, exited(0, "Completed")),
	"Pending, exit 137":           statusOf(corev1.PodPending, exited(137, "OOMKilled")),
	"exit code below zero":        statusOf(corev1.PodFailed, exited(-1, "")),
}

// withSidecar is a template for initAgain.
func withSidecar(r *v1alpha1.EphemeralRunner) {
	r.Spec.PodSpec.InitContainers = []corev1.Container{{Name: "init"},
		{Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
}

func pendingFor(timeout time.Duration) func(*v1alpha1.EphemeralRunner) {
	return func(r *v1alpha1.EphemeralRunner) { r.Spec.PendingTimeout = &metav1.Duration{Duration: timeout} }
}

// watch lets that much time pass, with passes twice a minute, and once a minute in an hour, where most find nothing new.
func (f *fixture) watch(long time.Duration) {
	f.Helper()
	pause := max(30*time.Second, long/60)
	for end := time.Now().Add(long); time.Now().Before(end) && f.runner() != nil; f.elapse(pause) {
		f.reconcile()
		f.reconcile()
	}
}

func TestNoVagueStatusEndsAJob(t *testing.T) {
	for title, vaguely := range vague {
		for job, report := range map[string]func(*v1alpha1.EphemeralRunner){
			"reported": hasReportedJob, "known to GitHub": func(*v1alpha1.EphemeralRunner) {},
		} {
			for seen, before := range map[string]func(*corev1.Pod){"seen to run": runs,
				"never seen to run": statusOf("")} {
				t.Run(title+", job "+job+", "+seen, func(t *testing.T) {
					inBubble(t, func(f *fixture) {
						f.settle()
						f.bind()
						f.github.remove = actions.ErrJobStillRunning
						f.setPod(before)
						f.setStatus(report)
						f.settle()
						pod := f.pod().UID
						f.setPod(vaguely)
						f.watch(rules.DefaultPendingTimeout + time.Minute)
						if now := f.pod(); now == nil || now.UID != pod || f.runner().Status.Done() {
							t.Fatalf("the pod of a job is gone, or its runner given up: %+v", f.runner().Status)
						}
						f.setPod(exits(0))
						f.setStatus(jobDone)
						f.settle()
						if f.runner() != nil || f.pod() != nil || f.secret() != nil {
							t.Errorf("left: runner %v, pod %v, Secret %v", f.runner(), f.pod(), f.secret())
						}
					}, newRunner(withSidecar))
				})
			}
		}
	}
}

// An idle runner is eventually given up or continues, but no JIT config that may have been used gets to another pod.
func TestVagueStatusesOfAnIdleRunnerEnd(t *testing.T) {
	for title, vaguely := range vague {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				configs := map[string]string{} // of pods, by JIT config
				for end := time.Now().Add(15 * time.Minute); time.Now().Before(end) &&
					!f.runner().Status.Done(); f.elapse(30 * time.Second) {
					if pod, secret := f.pod(), f.secret(); pod != nil && secret != nil {
						config := string(secret.Data[secretKeyJITConfig])
						if other, used := configs[config]; used && other != string(pod.UID) {
							t.Fatalf("pods %s and %s have %s", other, pod.UID, config)
						}
						configs[config] = string(pod.UID)
						if pod.Spec.NodeName == "" {
							f.bind()
							f.setPod(vaguely)
						}
					}
					f.reconcile()
					f.reconcile()
				}
				if pod := f.pod(); !f.runner().Status.Done() &&
					(pod == nil || rules.OutcomeOf(pod, time.Now()).Phase != podstatus.Running) {
					t.Errorf("in the end: %+v", f.runner().Status)
				}
			}, newRunner(withSidecar, pendingFor(time.Minute)))
		})
	}
}

func TestAnyWordOfAnEndIsAnEnd(t *testing.T) {
	for title, ends := range over {
		for job, report := range map[string]func(*v1alpha1.EphemeralRunner){
			"none": func(*v1alpha1.EphemeralRunner) {}, "reported": hasReportedJob, "completed": jobDone,
		} {
			t.Run(title+", job "+job, func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.settle()
					f.setPod(runs)
					f.setStatus(report)
					f.settle()
					pod := f.pod().UID
					f.setPod(ends)
					f.elapse(rules.ReportGrace)
					f.watch(time.Minute)
					if now := f.pod(); now != nil && now.UID == pod {
						t.Errorf("the pod is still there, and the runner %+v", f.runner().Status)
					}
					runner := f.runner()
					if (job == "completed" && runner != nil) || (job == "reported" && !runner.Status.Done()) {
						t.Errorf("the runner is still at work: %+v", runner.Status)
					}
					if runner != nil && job == "none" && rules.AttemptsRecorded(&runner.Status) == 0 &&
						!runner.Status.Done() {
						t.Errorf("nothing has come of it: %+v", runner.Status)
					}
				}, newRunner(withSidecar))
			})
		}
	}
}

// A pod that has ended does not run again, whatever is written afterwards.
func TestStatusesOutOfOrder(t *testing.T) {
	for first, ends := range over {
		for _, then := range []string{"Running, no statuses", "Unknown, running", "Pending, no statuses",
			"Running, waits to restart"} {
			again := vague[then]
			inBubble(t, func(f *fixture) {
				f.settle()
				f.setPod(runs)
				f.settle()
				f.hold("example.com/kubelet") // which keeps the pod for a while
				config := string(f.secret().Data[secretKeyJITConfig])
				pod := f.pod().UID
				for range 2 {
					f.setPod(ends)
					f.reconcile()
					f.setPod(again)
					f.reconcile()
					f.setPod(again)
					f.settle()
				}
				f.hold()
				f.watch(2 * time.Minute)
				if now := f.pod(); now != nil && now.UID == pod {
					t.Errorf("%s, then %s: the pod is still there, and the runner %+v", first, then, f.runner().Status)
				}
				if secret := f.secret(); f.pod() != nil && secret != nil &&
					string(secret.Data[secretKeyJITConfig]) == config {
					t.Errorf("%s, then %s: a second pod has the JIT config of the first", first, then)
				}
			}, newRunner(withSidecar))
		}
	}
}

// orphan removes the pod's owner, as if by hand.
func (f *fixture) orphan() {
	f.Helper()
	pod := f.pod()
	pod.OwnerReferences = nil
	if err := f.api.WithWatch.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// Without the owner reference the controller may not delete the pod, and another runner replaces its runner.
func TestPodWithoutItsOwnerIsLeftAlone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.orphan()
		f.watch(5 * time.Minute)
		if f.runner() != nil || f.pod() == nil {
			t.Errorf("runner %v, pod %v, want the pod alone", f.runner(), f.pod())
		}
		f.wantCalls("jit", "remove 101", "jit", "remove 102")
	}, newRunner())
}

func TestJobOfAPodWithoutItsOwnerContinues(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.settle()
		f.github.remove = actions.ErrJobStillRunning
		f.orphan()
		f.watch(time.Minute)
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseFailed || f.pod() == nil {
			t.Errorf("pod %v, status %+v, want the runner failed and its pod at work", f.pod(), status)
		}
	}, newRunner())
}

// Without our label the cache does not show the pod.
func TestJobOfAPodWithoutItsLabelContinues(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.setStatus(hasReportedJob)
		f.settle()
		f.cache.Client = podlessCache{f.api}
		f.watch(time.Hour)
		if f.pod() == nil || f.runner().Status.Done() {
			t.Fatalf("the pod of a job is gone, or its runner given up: %+v", f.runner().Status)
		}
		f.setPod(exits(0))
		f.setStatus(jobDone)
		f.settle()
		if f.runner() != nil || f.secret() != nil {
			t.Errorf("left: runner %v, Secret %v", f.runner(), f.secret())
		}
	}, newRunner())
}

// Whatever happens to a runner, and whatever is written to its pod's status in the meantime.
func TestAnySimulationWithStrangeStatusesEndsWell(t *testing.T) {
	for seed := range uint64(simulations / 2) {
		controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
			s := newSimulation(t, workers, seed)
			for range length {
				s.happen()
				s.lie()
				s.show(s.chance(2), s.chance(2))
				s.passesDue()
			}
			s.end()
		})
		if t.Failed() {
			return
		}
	}
}

// lie sometimes writes a strange status of the pod, until its node reports the truth. None of them says that a
// container has ended that has not, or has not started that has.
func (s *simulation) lie() {
	if s.pod == nil || s.node.lost || !s.chance(4) || (!s.node.running && !s.node.ended) {
		return
	}
	lies := vague
	if s.node.ended {
		lies = over
	}
	titles := slices.Sorted(maps.Keys(lies)) // sorted, so that a seed draws the same one again
	shown := s.pod.DeepCopy()
	lies[titles[s.random.IntN(len(titles))]](shown)
	if rules.OutcomeOf(shown, time.Now()).Phase == podstatus.NeverStarted {
		return
	}
	s.pod, s.node.reported = shown, false
	s.write(s.pod)
}
