package ephemeralrunner_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// Whoever gets a runner's claims next, another runner or another pod of the same, gets them only if keepAfter says so.
// That GitHub has no registration of the runner any more, whichever way it says that, proves nothing: GitHub removes it
// by itself after the job, whose report may be late.

// withGuardedClaim is withClaim with a set that keeps claims after jobs of pushes, and whose listener listens.
func withGuardedClaim(t *testing.T, test func(f *fixture)) {
	t.Helper()
	withClaim(t, test, func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Spec.VolumeClaimPool.KeepAfter = &v1alpha1.KeepClaimsAfter{Events: []string{"push"}}
		set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: metav1.ConditionTrue}}
	})
}

// wantNoSecondPod lets ten minutes pass, in which no pod may mount the claim.
func (f *fixture) wantNoSecondPod(before string) {
	f.Helper()
	for range 20 {
		f.elapse(30 * time.Second)
		f.settle()
		if pod := f.pod(); pod != nil && string(pod.UID) != before {
			f.Fatalf("another pod mounts the claim: %v", pod.Spec.Volumes)
		}
	}
}

func (f *fixture) reportLate(event string) {
	f.Helper()
	f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status.JobID, r.Status.Event = "job", event })
}

// up has the runner's pod start, and returns its UID.
func (f *fixture) up() string {
	f.Helper()
	f.settle()
	f.setPod(runs)
	f.settle()
	return string(f.pod().UID)
}

// The container has ended, whatever of and as whatever GitHub calls its registration. There is no second pod, and no
// claim is kept without a report.
func TestARunnerThatHasStartedGetsNoSecondPodWithItsClaims(t *testing.T) {
	for ending, end := range map[string]func(f *fixture){
		"failed":  func(f *fixture) { f.setPod(exits(1)) },
		"evicted": func(f *fixture) { f.setPod(evict) },
		"deleted by hand": func(f *fixture) {
			if err := f.api.WithWatch.Delete(f.Context(), f.pod()); err != nil {
				f.Fatal(err)
			}
		},
		"failed, never seen to run": func(f *fixture) {
			f.setPod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{} })
			f.restart()
			f.setPod(exits(1))
		},
		"gone with the manager": func(f *fixture) {
			if err := f.api.WithWatch.Delete(f.Context(), f.pod()); err != nil {
				f.Fatal(err)
			}
			f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status = v1alpha1.EphemeralRunnerStatus{} })
			f.restart()
		},
	} {
		for answer, err := range map[string]error{"204": nil, "404": actions.ErrRunnerNotFound} {
			for event, kept := range map[string]bool{"": false, "pull_request": false, "push": true} {
				t.Run(fmt.Sprintf("%s, %s, %q", ending, answer, event), func(t *testing.T) {
					withGuardedClaim(t, func(f *fixture) {
						before := f.up()
						f.github.remove = err
						end(f)
						f.settle()
						if event != "" && f.runner() != nil {
							f.elapse(20 * time.Second)
							f.reportLate(event)
						}
						f.wantNoSecondPod(before)
						if runner := f.runner(); runner != nil { // kept as evidence until its set deletes it
							f.delete()
						}
						f.elapseMinutes(2)
						f.wantGone()
						if got := f.claim() != nil; got != kept {
							t.Errorf("the claim is kept: %t, want %t", got, kept)
						}
					})
				})
			}
		}
	}
}

// Nothing has run: the claim is as it was, and the next pod may have it.
func TestAPodThatNeverStartedSpendsNoClaim(t *testing.T) {
	withGuardedClaim(t, func(f *fixture) {
		for range 2 {
			f.settle()
			f.setPod(cannotStart("ImagePullBackOff"))
			f.settle()
			if f.pod() != nil {
				t.Fatal("the pod that can't start is left")
			}
			f.elapse(rules.RetryBackoff[1])
		}
		f.settle()
		if f.pod() == nil {
			t.Fatalf("no third pod: %+v", f.runner().Status)
		}
		f.delete()
		f.elapseMinutes(1)
		f.wantGone()
		if f.claim() == nil {
			t.Error("the claim is deleted")
		}
	})
}

// The kubelet starts the container while its pod is being deleted: the runner gives way to another.
func TestAPodThatStartsLateSpendsItsClaim(t *testing.T) {
	withGuardedClaim(t, func(f *fixture) {
		f.settle()
		before := string(f.pod().UID)
		f.hold("example.com/kubelet")
		f.setPod(cannotStart("ImagePullBackOff"))
		f.settle()
		f.setPod(runs)
		f.settle()
		f.setPod(exits(0))
		f.hold()
		f.wantNoSecondPod(before)
		f.wantGone()
		if f.claim() != nil {
			t.Error("the claim is kept")
		}
	})
}

// A runner that is not needed any more may have had a job, too: GitHub's consent says only that it gets none.
func TestGitHubsConsentKeepsNoClaim(t *testing.T) {
	for event, kept := range map[string]bool{"": false, "pull_request": false, "push": true} {
		withGuardedClaim(t, func(f *fixture) {
			f.up()
			f.delete()
			f.settle()
			f.wantCalls("jit", "remove 101")
			if f.pod() != nil || f.claim() == nil {
				t.Fatal("its pod is left, or its claim is gone before any report can have come")
			}
			if event != "" {
				f.reportLate(event)
			}
			f.elapseMinutes(2)
			f.wantGone()
			if got := f.claim() != nil; got != kept {
				t.Errorf("event %q: the claim is kept: %t", event, got)
			}
		})
	}
}

// Without keepAfter nothing is asked: the second pod gets the claim, as ever.
func TestWithoutKeepAfterASecondPodGetsTheClaim(t *testing.T) {
	withClaim(t, func(f *fixture) {
		before := f.up()
		f.setPod(exits(1))
		f.settle()
		f.elapse(rules.RetryBackoff[0])
		f.settle()
		if pod := f.pod(); pod == nil || string(pod.UID) == before || f.claim() == nil {
			t.Errorf("no second pod, or no claim: %+v", f.runner().Status)
		}
	}, func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.VolumeClaimPool.KeepAfter = nil })
}
