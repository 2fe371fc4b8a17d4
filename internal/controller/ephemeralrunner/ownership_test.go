package ephemeralrunner_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
)

// lost are the ways in which a runner has lost its owner, or never had one.
var lost = map[string]func(*v1alpha1.EphemeralRunner){
	"no owner":                        func(r *v1alpha1.EphemeralRunner) { r.OwnerReferences = nil },
	"an owner that is gone":           func(r *v1alpha1.EphemeralRunner) { r.OwnerReferences[0].Name = "gone" },
	"an owner that was created again": func(r *v1alpha1.EphemeralRunner) { r.OwnerReferences[0].UID = "former" },
	"an owner that does not control":  func(r *v1alpha1.EphemeralRunner) { r.OwnerReferences[0].Controller = nil },
	"an owner of another kind":        func(r *v1alpha1.EphemeralRunner) { r.OwnerReferences[0].Kind = "AutoscalingRunnerSet" },
	"no owner, labels or finalizer":   func(r *v1alpha1.EphemeralRunner) { r.OwnerReferences, r.Labels, r.Finalizers = nil, nil, nil },
	"no owner, of another namespace's": func(r *v1alpha1.EphemeralRunner) {
		r.OwnerReferences, r.Labels[v1alpha1.LabelScaleSetNamespace] = nil, "b"
	},
}

// restored are the states that a backup has saved.
var restored = map[string]func(*v1alpha1.EphemeralRunner){
	"without status": func(*v1alpha1.EphemeralRunner) {},
	"running": func(r *v1alpha1.EphemeralRunner) {
		r.Status.Phase, r.Status.RunnerID = v1alpha1.EphemeralRunnerPhaseRunning, 37
	},
	"with a job": func(r *v1alpha1.EphemeralRunner) {
		r.Status.Phase, r.Status.RunnerID, r.Status.JobID = v1alpha1.EphemeralRunnerPhaseRunning, 37, "job"
	},
	"failed": func(r *v1alpha1.EphemeralRunner) {
		r.Status.Phase, r.Status.RunnerID = v1alpha1.EphemeralRunnerPhaseFailed, 37
	},
}

func TestRunnerWithoutASetGetsNothingAndGoes(t *testing.T) {
	for how, lose := range lost {
		for state, restore := range restored {
			t.Run(how+", "+state, func(t *testing.T) {
				inBubble(t, func(f *fixture) {
					f.settle()
					if f.runner() != nil || f.pod() != nil || f.secret() != nil {
						t.Errorf("left: runner %v, pod %v, Secret %v", f.runner(), f.pod(), f.secret())
					}
					if said := f.github.said(); slices.Contains(said, "jit") {
						t.Errorf("GitHub was asked %v", said)
					}
					f.wantEvent(v1alpha1.ReasonOwnerless)
				}, newRunner(lose, restore))
			})
		}
	}
}

// Its namespace may be one whose scale set, and with it the right to read pods, is long gone.
func TestRunnerWithoutASetGoesThoughItsPodMayNotBeRead(t *testing.T) {
	for state, restore := range restored {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.live.Reader = podsForbidden{f.api}
				f.settle()
				if f.runner() != nil {
					t.Errorf("left: runner %+v", f.runner())
				}
			}, newRunner(lost["no owner"], restore))
		})
	}
}

// nobodysSet returns the runner's set without an owner.
func nobodysSet() *v1alpha1.EphemeralRunnerSet {
	set := newSet()
	set.OwnerReferences = nil
	return set
}

// registered has GitHub's possible states when a runner comes back whose status names registration 37.
var registered = map[string]actions.RunnerReference{
	"of its name and id":          {ID: 37, Name: runnerKey.Name, RunnerScaleSetID: scaleSet},
	"offline for the moment":      {ID: 37, Name: runnerKey.Name, RunnerScaleSetID: scaleSet, Status: "offline"},
	"at work in another cluster":  {ID: 37, Name: runnerKey.Name, RunnerScaleSetID: scaleSet, Status: "online"},
	"another runner's":            {ID: 37, Name: "other", RunnerScaleSetID: scaleSet},
	"a later one of its name":     {ID: 38, Name: runnerKey.Name, RunnerScaleSetID: scaleSet},
	"of another scale set's name": {ID: 37, Name: runnerKey.Name, RunnerScaleSetID: scaleSet + 1},
}

// What a backup says of a registration may be about that of a runner that works in another cluster. GitHub isn't asked,
// so it need not answer, and no credentials are needed.
func TestRunnerThatNobodyCountsTakesNoRegistrationAway(t *testing.T) {
	for state, restore := range restored {
		for name, runner := range registered {
			t.Run(state+", "+name, func(t *testing.T) {
				check := func(f *fixture, why string) {
					f.github.registered[runner.Name], f.github.unresolved = runner, errGitHubAway
					for range 3 { // a lost job is reported, and a set that is nobody's counts none
						f.settle()
						f.elapse(max(rules.SilentGrace, 30*time.Second))
					}
					if said := f.github.said(); f.runner() != nil || len(said) > 0 {
						t.Errorf("%s: GitHub was asked %v; runner %v", why, said, f.runner())
					}
				}
				inBubble(t, func(f *fixture) { check(f, "without a set") }, newRunner(lost["no owner"], restore))
				inBubble(t, func(f *fixture) {
					f.delete()
					check(f, "of a set that is nobody's, which is drained")
				}, newRunner(restore), nobodysSet())
			})
		}
	}
}

// A copy of a runner, with its owner and its status, has no registration yet: what its status names is the original's.
// In its own name it may have one, of which it says nothing.
func TestCopyOfARunnerTakesNoRegistrationAway(t *testing.T) {
	for state, restore := range restored {
		t.Run(state, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.registered["original"] = actions.RunnerReference{ID: 37, Name: "original",
					RunnerScaleSetID: scaleSet}
				f.github.registered[name] = actions.RunnerReference{ID: 38, Name: name, RunnerScaleSetID: scaleSet}
				f.settle()
				f.elapse(rules.RetryBackoff[0])
				f.settle()
				f.delete()
				f.settle()
				if _, there := f.github.registered["original"]; !there {
					t.Error("the original has lost its registration")
				}
				if left, there := f.github.registered[name]; there {
					t.Errorf("left: %v", left)
				}
			}, newRunner(restore))
		})
	}
}

// A runner that loses its owner while it works has its own pod, so what is known of its registration is true.
func TestRunnerThatLosesItsOwnerFinishesItsJob(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.setStatus(hasReportedJob)
		f.github.remove = actions.ErrJobStillRunning
		orphan := f.runner()
		orphan.OwnerReferences = nil
		if err := f.api.WithWatch.Update(t.Context(), orphan); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if f.pod() == nil || f.pod().DeletionTimestamp != nil || f.runner().DeletionTimestamp == nil {
			t.Fatalf("pod %v, runner %v; want the pod until its job ends", f.pod(), f.runner())
		}
		f.github.remove = nil
		f.setStatus(jobDone)
		f.settle()
		f.wantGone()
	}, newRunner())
}

// A cache that is late does not show a set that the API server has.
func TestRunnerWhoseSetTheCacheDoesNotShowYetStays(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.live.Reader = controllertest.NewKubernetes().WithObjects(newSet()).Build()
		if err := f.api.WithWatch.Delete(t.Context(), newSet()); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if f.runner() == nil || f.pod() == nil {
			t.Errorf("runner %v, pod %v", f.runner(), f.pod())
		}
	}, newRunner())
}

// A set that nobody owns counts no runner: it is taken back, or removed with its runners.
func TestRunnerOfASetWithoutAnOwnerWaits(t *testing.T) {
	set := newSet()
	owners := set.OwnerReferences
	set.OwnerReferences = nil
	inBubble(t, func(f *fixture) {
		f.settle()
		f.elapse(5 * time.Second)
		f.settle()
		if said := f.github.said(); len(said) > 0 || f.runner().DeletionTimestamp != nil {
			t.Errorf("GitHub was asked %v; the runner is %+v", said, f.runner())
		}
		if status := f.runner().Status; status.Reason != v1alpha1.ReasonOwnerless {
			t.Errorf("status %+v", status)
		}
		f.wantEvent(v1alpha1.ReasonOwnerless)
		set := &v1alpha1.EphemeralRunnerSet{}
		controllertest.Read(t, f.api, types.NamespacedName{Namespace: namespace, Name: "set"}, set)
		set.OwnerReferences = owners
		if err := f.api.WithWatch.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		f.elapse(5 * time.Second)
		f.settle()
		if f.pod() == nil {
			t.Error("it has no pod though the set was taken back")
		}
	}, newRunner(), set)
}

func TestRunnerForWhichItsSetHasNoRoomWaits(t *testing.T) {
	inBubble(t, func(f *fixture) {
		room := false
		f.admit = func(set *v1alpha1.EphemeralRunnerSet, runner types.NamespacedName) bool {
			return room && set.UID == newSet().UID && runner == runnerKey
		}
		f.settle()
		if said := f.github.said(); len(said) > 0 || f.runner().Status.Reason != v1alpha1.ReasonMaxRunnersReached {
			t.Errorf("GitHub was asked %v; status %+v", said, f.runner().Status)
		}
		room = true
		f.elapse(5 * time.Second)
		f.settle()
		f.wantCalls("jit")
	}, newRunner())
}

// bubbleBegins is the time at which synctest begins each bubble.
var bubbleBegins = metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))

// A backup brings a runner's pod and Secret back without the runner.
func TestPodWithoutARunnerGoes(t *testing.T) {
	runner := newRunner()
	pod := newPod(runner, 37, "1")
	pod.OwnerReferences = nil
	secret := newSecret(runner, 37, "config")
	secret.OwnerReferences = nil
	for name, test := range map[string]struct {
		change func(*corev1.Pod, *corev1.Secret)
		stays  bool
	}{
		"restored": {func(*corev1.Pod, *corev1.Secret) {}, false},
		"with its job": {func(p *corev1.Pod, _ *corev1.Secret) {
			p.Labels[v1alpha1.LabelRunnerBusy], p.Status.Phase = v1alpha1.RunnerBusy, corev1.PodRunning
		}, true},
		"with a node": {func(p *corev1.Pod, _ *corev1.Secret) { p.Spec.NodeName = "node" }, true},
		"a minute on its node": {func(p *corev1.Pod, _ *corev1.Secret) {
			p.Spec.NodeName, p.CreationTimestamp = "node", metav1.NewTime(bubbleBegins.Add(-time.Minute))
		}, false},
		"it runs, and nobody has marked it": {func(p *corev1.Pod, _ *corev1.Secret) {
			p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
		}, true},
		"it ran for six hours": {func(p *corev1.Pod, _ *corev1.Secret) {
			p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
			p.CreationTimestamp = metav1.NewTime(bubbleBegins.Add(-6 * time.Hour))
		}, false},
		"it has ended": {func(p *corev1.Pod, _ *corev1.Secret) {
			p.Spec.NodeName, p.Status.Phase = "node", corev1.PodFailed
		}, false},
		"after its job": {func(p *corev1.Pod, _ *corev1.Secret) {
			p.Labels[v1alpha1.LabelRunnerBusy], p.Status.Phase = v1alpha1.RunnerBusy, corev1.PodSucceeded
		}, false},
		"of somebody else":       {func(p *corev1.Pod, _ *corev1.Secret) { p.Spec.Containers[0].Env = nil }, true},
		"owned":                  {func(p *corev1.Pod, _ *corev1.Secret) { p.OwnerReferences = kube.OwnedBy(runner) }, true},
		"without the label":      {func(p *corev1.Pod, _ *corev1.Secret) { delete(p.Labels, v1alpha1.LabelRunner) }, true},
		"with another's Secret":  {func(_ *corev1.Pod, s *corev1.Secret) { s.Data = map[string][]byte{"theirs": nil} }, false},
		"with a Secret of a job": {func(_ *corev1.Pod, s *corev1.Secret) { s.Data[secretKeyRunnerName] = []byte("another") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod, secret := pod.DeepCopy(), secret.DeepCopy()
			pod.CreationTimestamp = bubbleBegins
			test.change(pod, secret)
			ours := string(secret.Data[secretKeyRunnerName]) == pod.Name
			inBubble(t, func(f *fixture) {
				f.settle()
				if stays := f.pod() != nil; stays != test.stays {
					t.Errorf("the pod stays: %t, want %t", stays, test.stays)
				}
				if stays := f.secret() != nil; stays != (test.stays || !ours) {
					t.Errorf("the Secret stays: %t", stays)
				}
				if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonOwnerless); told > 0 == test.stays {
					t.Errorf("%d Events", told)
				}
			}, pod, secret)
		})
	}
}

// Its own Secret, which has lost its owner, goes with a runner; another's stays.
func TestSecretThatLostItsOwnerGoesWithTheRunner(t *testing.T) {
	for name, data := range map[string]map[string][]byte{"its own": nil, "another's": {"theirs": []byte("kept")}} {
		t.Run(name, func(t *testing.T) {
			runner := newRunner(lost["no owner"])
			secret := newSecret(runner, 37, "config")
			secret.UID, secret.OwnerReferences = "secret", nil
			if data != nil {
				secret.Data = data
			}
			inBubble(t, func(f *fixture) {
				f.settle()
				if stays := f.secret() != nil; stays != (data != nil) || f.runner() != nil {
					t.Errorf("the Secret stays: %t; runner %v", stays, f.runner())
				}
			}, runner, secret)
		})
	}
}

// Nothing strands one with a pod: GitHub doesn't answer, or its credentials are gone.
func TestRunnerWithoutASetDoesNotWaitForGitHubForEver(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		orphan := f.runner()
		orphan.OwnerReferences = nil
		if err := f.api.WithWatch.Update(t.Context(), orphan); err != nil {
			t.Fatal(err)
		}
		f.github.find, f.github.remove = errGitHubAway, errGitHubAway
		f.settle()
		if f.runner() == nil {
			t.Error("GitHub was not asked whether it has a job")
		}
		f.elapse(rules.SilenceTimeout)
		f.settle()
		if f.runner() != nil {
			t.Error("the runner is still there")
		}
		f.wantEvent("RegistrationLeft")
	}, newRunner())
}

// Somebody gives a runner an owner while it is about to be deleted.
func TestRunnerThatWasChangedSinceItWasReadIsLookedAtAgain(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cache.Client = staleCache{recordingAPI: f.api, runner: f.runner()}
		now := f.runner()
		now.OwnerReferences = kube.OwnedBy(newSet())
		if err := f.api.WithWatch.Update(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
		f.cache.Client = f.api
		if f.runner() == nil || f.runner().DeletionTimestamp != nil {
			t.Error("it is deleted all the same")
		}
		f.elapse(time.Minute)
		f.settle()
		if f.pod() == nil {
			t.Errorf("it has an owner, but no pod: %+v", f.runner().Status)
		}
	}, newRunner(lost["no owner"]))
}
