package ephemeralrunner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
)

// What happens while the cache shows runner and pod as they were some seconds ago.

// bind assigns a node, as the scheduler would.
func (f *fixture) bind() {
	f.Helper()
	pod := f.pod()
	pod.Spec.NodeName = "node"
	if err := f.api.WithWatch.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// The pod got its node, and its runner a job, after the state that the cache shows.
func TestLateCacheStopsNoPodThatHasGotItsNode(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		pod := f.pod()
		f.bind()
		f.setPod(runs)
		f.github.remove = actions.ErrJobStillRunning
		f.delete()
		f.cache.Client = staleCache{f.api, f.runner(), pod}
		f.settle()
		if f.pod() == nil || f.secret() == nil {
			t.Fatal("the pod of a running job, or its Secret, was deleted")
		}
		f.cache.Client = f.api
		f.settle()
		f.wantEvent("Draining")
		f.github.remove = nil
		f.setPod(exits(0))
		f.elapse(rules.BusyRetryBackoff)
		f.settle()
		f.wantGone()
	}, newRunner())
}

// The former manager created the pod just before it stopped, the runner has a job, and the new manager's cache shows no
// pod yet.
func TestPodOfAFormerManagerKeepsItsJobThoughTheCacheIsLate(t *testing.T) {
	for title, remove := range map[string]error{"busy": actions.ErrJobStillRunning, "idle": nil} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				f.setPod(runs)
				f.github.remove = remove
				f.restart()
				f.cache.Client = podlessCache{f.api}
				f.settle()
				f.cache.Client = f.api
				f.settle()
				f.wantCalls("jit", "jit", "find")
				if status := f.runner().Status; f.pod() == nil ||
					status.Phase != v1alpha1.EphemeralRunnerPhaseRunning ||
					status.RunnerID != 101 {
					t.Errorf("pod left %t, status %+v, want Running with registration 101", f.pod() != nil, status)
				}
			}, newRunner())
		})
	}
}

// The job is reported, the manager is new, and its cache shows no pod yet: the API server is asked before the job is
// given up.
func TestJobIsNotGivenUpForALateCacheOfPods(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(runs)
		f.setStatus(hasReportedJob)
		f.settle()
		f.restart()
		f.cache.Client = podlessCache{f.api}
		f.settle()
		if status := f.runner().Status; f.pod() == nil || status.Phase != v1alpha1.EphemeralRunnerPhaseRunning {
			t.Errorf("pod left %t, status %+v, want Running", f.pod() != nil, status)
		}
		if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.elapse(rules.SilentGrace)
		f.settle()
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseFailed ||
			status.Reason != v1alpha1.ReasonPodLost {
			t.Errorf("status %+v, want Failed for %s", status, v1alpha1.ReasonPodLost)
		}
	}, newRunner())
}

// On its node a container starts before its kubelet says so: only GitHub knows whether the runner has a job.
func TestPodOnANodeWaitsForGitHubThoughItLooksPending(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.bind()
		f.github.remove = actions.ErrJobStillRunning
		f.delete()
		f.settle()
		if f.pod() == nil || f.secret() == nil {
			t.Fatal("the pod, or its Secret, was deleted though GitHub says that the runner has a job")
		}
		f.setPod(runs)
		f.settle()
		f.elapse(time.Second)
		f.github.remove = nil
		f.setPod(exits(0))
		f.settle()
		f.wantGone() // not only after the pause that follows a refusal
	}, newRunner())
}

// Without a node nothing runs: the pod is deleted immediately, whatever GitHub does.
func TestPodWithoutANodeIsDeletedWhileGitHubIsAway(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.github.remove = errGitHubAway
		f.delete()
		f.settle()
		if f.pod() != nil || f.secret() != nil {
			t.Error("the pod without a node, or its Secret, is left")
		}
		if f.runner() == nil {
			t.Error("the registration is left without a word")
		}
	}, newRunner())
}

// The cache shows the runner as it was before the last write: nothing is done twice.
func TestLateCacheRepeatsNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		late := f.runner()
		f.setPod(exits(1))
		f.settle() // GitHub was asked, the failure recorded
		f.wantCalls("jit", "remove 101")
		f.api.sent()
		f.cache.Client = staleCache{recordingAPI: f.api, runner: late}
		f.settle()
		f.wantCalls()
		if got := f.api.sent(); got != "" {
			t.Errorf("requests %s, want none", got)
		}
	}, newRunner())
}

// What was deleted is not deleted again while the cache still shows it.
func TestLateCacheDeletesNothingTwice(t *testing.T) {
	withHooks := func(r *v1alpha1.EphemeralRunner) {
		r.Spec.PodSpec.Containers[0].Env = []corev1.EnvVar{{Name: kube.EnvContainerHooks, Value: "/hooks"}}
	}
	for title, test := range map[string]struct {
		runner  *v1alpha1.EphemeralRunner
		change  func(f *fixture)
		showPod bool
		want    string
	}{
		"finalization": {
			newRunner(withHooks), func(f *fixture) { f.delete() }, false,
			"delete Pod, delete Secret, list PodList, list SecretList, list JobList, patch EphemeralRunner",
		},
		"finalization, pod shown too": {newRunner(), func(f *fixture) { f.delete() }, true, "delete Pod, delete Secret"},
		"job done": {
			newRunner(), func(f *fixture) { f.setStatus(jobDone); f.setPod(exits(0)) }, false,
			"delete Pod, delete Secret, patch EphemeralRunner, delete EphemeralRunner",
		},
		"job begun": {newRunner(), func(f *fixture) { f.setStatus(startJob) }, true, "patch Pod"},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.started()
				test.change(f)
				late := staleCache{recordingAPI: f.api, runner: f.runner()}
				if test.showPod {
					late.pod = f.pod()
				}
				f.api.sent()
				f.cache.Client = late
				f.settle()
				if got := f.api.sent(); got != test.want {
					t.Errorf("requests %s\nwant     %s", got, test.want)
				}
			}, test.runner)
		})
	}
}

// Somebody removes the label by which the cache selects pods, and the runner is deleted. That GitHub mentioned a job
// counts more than a cache without a pod.
func TestJobInAPodThatTheCacheLacksIsWaitedFor(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.cache.Client = podlessCache{f.api}
		f.github.remove = actions.ErrJobStillRunning
		f.delete()
		f.elapseMinutes(20)
		if f.runner() == nil || f.pod() == nil {
			t.Fatal("a running job was killed")
		}
		f.endsItsJob()
	}, newRunner())
}

// An uninstallation takes away the right to read pods before the runner is gone. That the pod is not in the cache is
// all there is to know then, and the deletion ends as it would have.
func TestDeletionEndsThoughTheMissingPodMayNotBeRead(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.github.remove = actions.ErrJobStillRunning
		f.delete()
		f.settle()
		if err := f.api.Delete(t.Context(), f.pod(), client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		f.live.Reader = podsForbidden{f.api}
		f.elapseMinutes(6)
		f.wantGone()
	}, newRunner())
}

// podsForbidden is an API server that lets nobody read pods.
type podsForbidden struct{ client.Reader }

func (r podsForbidden) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if _, ok := object.(*corev1.Pod); ok {
		return apierrors.NewForbidden(corev1.Resource("pods"), key.Name, errors.New("the Role is gone"))
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// The last pod seen belongs to an attempt that failed. The next attempt's pod is on its way, and would be left without
// its runner.
func TestFinalizationWaitsForThePodOfALaterAttempt(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.settle()
		f.setPod(func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu" })
		f.settle()
		f.cache.Client = podlessCache{f.api}
		f.elapse(rules.RetryBackoff[0])
		f.settle()
		if f.pod() == nil || len(f.runner().Status.Failures) != 1 {
			t.Fatalf("pod %v, status %+v, want the pod of a second attempt", f.pod(), f.runner().Status)
		}
		f.delete()
		f.settle()
		if f.runner() == nil {
			t.Fatal("the runner is gone, and leaves its pod")
		}
		f.cache.Client = f.api
		f.elapse(time.Second)
		f.settle()
		f.wantGone()
	}, newRunner())
}

const nodeRemoved = "DeletionByPodGC"

// gone removes the runner's pod with its node, faster than any pass, and returns its last state.
func (f *fixture) gone() *corev1.Pod {
	f.Helper()
	podDisrupted(nodeRemoved)(f)
	last := f.pod()
	podForced(f)
	return last
}

// Two pods are lost with their nodes, one after the other, while the cache is behind. That is nobody's fault, and the
// status says so immediately.
func TestNodesThatVanishFasterThanTheCacheFollows(t *testing.T) {
	// firstLost has the runner lose its first pod, and wait for its second one.
	firstLost := func(f *fixture, watch *controllertest.Started) {
		f.settle()
		watch.Deleted(f.gone())
		f.settle()
	}
	for name, test := range map[string]func(*fixture, *controllertest.Started){
		"the end of the first pod is shown late": func(f *fixture, _ *controllertest.Started) {
			f.settle()
			podDisrupted(nodeRemoved)(f)
			f.setPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
			before, last := f.runner(), f.pod()
			f.settle()
			f.cache.Client = staleCache{f.api, before, last} // the failure is recorded, and not shown yet
			f.settle()
			f.cache.Client = f.api
			f.elapse(rules.BackoffAfter(1))
			f.settle()
			podForced(f) // nothing shows why
			f.settle()
		},
		"the second pod is never shown": func(f *fixture, watch *controllertest.Started) {
			firstLost(f, watch)
			f.elapse(rules.BackoffAfter(1))
			f.reconcile()
			watch.Deleted(f.gone())
			f.settle()
		},
		"the second pod goes while a pass reads it": func(f *fixture, watch *controllertest.Started) {
			firstLost(f, watch)
			f.elapse(rules.BackoffAfter(1))
			f.settle()
			shown := f.pod()
			last := f.gone()
			f.cache.Client = interceptor.NewClient(f.api, interceptor.Funcs{Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
				options ...client.GetOption,
			) error {
				pod, isPod := object.(*corev1.Pod)
				if !isPod || shown == nil {
					return c.Get(ctx, key, object, options...)
				}
				shown.DeepCopyInto(pod)
				shown = nil
				watch.Deleted(last)
				return nil
			}})
			f.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				test(f, f.start()) // whose own passes never get their turn
				status := f.runner().Status
				if len(status.Failures) != 0 || len(status.Disruptions) != 2 {
					t.Errorf("status %+v, want two disruptions", status)
				}
			}, newRunner())
		})
	}
}
