package ephemeralrunner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

const cacheClaim = "set-cache-bcdfg"

// withClaim runs a test with a runner that has the claim of a set which keeps those of jobs that succeeded. change
// changes the set.
func withClaim(t *testing.T, test func(f *fixture), change ...func(*v1alpha1.AutoscalingRunnerSet)) {
	t.Helper()
	set := newSet()
	origin := controllertest.Origin(set)
	origin.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{
		{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"}}}
	origin.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{
		KeepAfter: &v1alpha1.KeepClaimsAfter{Results: []string{"succeeded"}}}
	for _, c := range change {
		c(origin)
	}
	runner := newRunner(func(r *v1alpha1.EphemeralRunner) {
		r.Spec.VolumeClaims = map[string]string{"cache": cacheClaim}
	})
	inBubble(t, test, set, origin, runner)
}

func (f *fixture) claim() *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	if !controllertest.Read(f, f.api, types.NamespacedName{Namespace: namespace, Name: cacheClaim}, claim) {
		return nil
	}
	return claim
}

// endJob has the runner's job end with a result, which may not have been reported, and the runner deleted.
func (f *fixture) endJob(result string) {
	f.Helper()
	f.started()
	runner := f.runner()
	runner.Status.JobID, runner.Status.JobResult = "job", result
	if err := f.api.Status().Update(f.Context(), runner); err != nil {
		f.Fatal(err)
	}
	f.setPod(exits(0))
	f.settle()
	f.delete()
	f.settle()
}

// A claim that must not be passed on stays with its runner while the manager may not delete it, and the runner says
// why.
func TestARunnerStaysWhileItsSpoiledClaimMayNotBeDeleted(t *testing.T) {
	withClaim(t, func(f *fixture) {
		forbidden := true
		f.cache.Client = interceptor.NewClient(f.api, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object,
				options ...client.DeleteOption) error {
				if _, ok := object.(*corev1.PersistentVolumeClaim); ok && forbidden {
					return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), object.GetName(), nil)
				}
				return c.Delete(ctx, object, options...)
			},
		})
		f.endJob("failed")
		f.elapseMinutes(10)
		runner := f.runner()
		if f.claim() == nil || runner == nil || runner.Status.Reason != v1alpha1.ReasonVolumeClaimNotDeleted ||
			!strings.Contains(runner.Status.Message, cacheClaim) {
			t.Fatalf("claim %v, runner %v", f.claim(), runner)
		}
		f.wantEvent(v1alpha1.ReasonVolumeClaimNotDeleted)
		forbidden = false
		f.elapseMinutes(1)
		if f.claim() != nil {
			t.Error("the claim is left")
		}
		f.wantGone()
	})
}

// The listener is away when the job ends: its report comes minutes later, and decides.
func TestAClaimWaitsForItsJobsResult(t *testing.T) {
	away := func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionListenerReady, Status: metav1.ConditionFalse}}
	}
	for result, kept := range map[string]bool{"succeeded": true, "failed": false, "": false} {
		withClaim(t, func(f *fixture) {
			f.endJob("")
			f.elapseMinutes(3)
			runner := f.runner()
			if runner == nil || f.claim() == nil {
				t.Fatal("the runner or its claim is gone before the report")
			}
			if !runner.Status.Done() {
				t.Errorf("phase %s: its set still counts it", runner.Status.Phase)
			}
			runner.Status.JobResult = result
			if err := f.api.Status().Update(t.Context(), runner); err != nil {
				t.Fatal(err)
			}
			f.elapseMinutes(4)
			f.wantGone()
			if (f.claim() != nil) != kept {
				t.Errorf("result %q: the claim is kept: %t", result, f.claim() != nil)
			}
		}, away)
	}
}

// A set that takes no jobs has no session: its claims wait for the report that the next one brings, without an end, and
// without a request.
func TestADrainedSetKeepsItsClaimsForTheNextSession(t *testing.T) {
	withClaim(t, func(f *fixture) {
		f.endJob("")
		f.elapseMinutes(60)
		runner := f.runner()
		if runner == nil || f.claim() == nil {
			t.Fatal("the runner or its claim is gone before the report")
		}
		if !runner.Status.Done() {
			t.Errorf("phase %s: its set is never drained", runner.Status.Phase)
		}
		runner.Status.JobResult = "succeeded"
		if err := f.api.Status().Update(t.Context(), runner); err != nil {
			t.Fatal(err)
		}
		f.settle()
		f.wantGone()
		if f.claim() == nil {
			t.Error("the claim of a job that has succeeded is gone")
		}
	}, func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Annotations = map[string]string{v1alpha1.AnnotationDrained: v1alpha1.DrainedValue}
	})
}

// The hook of feedback.jobLog says at a job's end how full its volume is. A full one goes before its runner does.
func TestAFullClaimGoesWithTheJobThatFilledIt(t *testing.T) {
	for percent, kept := range map[int]bool{91: false, 90: true} {
		withClaim(t, func(f *fixture) {
			f.started()
			runner := f.runner()
			runner.Status.JobID, runner.Status.JobResult = "job", "succeeded"
			if err := f.api.Status().Update(t.Context(), runner); err != nil {
				t.Fatal(err)
			}
			f.setPod(func(pod *corev1.Pod) {
				exits(0)(pod)
				pod.Status.ContainerStatuses[0].State.Terminated.Message = fmt.Sprintf(
					"{\"usage\":1}\n{\"volume\":1,\"name\":\"cache\",\"bytes\":100,\"usedBytes\":%d}\n", percent)
			})
			f.settle()
			f.wantGone()
			if (f.claim() != nil) != kept {
				t.Errorf("%d %% of it is used: the claim is kept: %t", percent, f.claim() != nil)
			}
		}, func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.VolumeClaimPool.MaxUsedPercent = new(90) })
	}
}

// A runner that is deleted with its job counts no longer when its pod has ended, though the result is waited for. One
// without a claim of its own does not wait.
func TestAWaitingRunnerLeavesItsPlaceToAnother(t *testing.T) {
	for name, claim := range map[string]string{"a claim": cacheClaim, "a volume of its pod": ""} {
		t.Run(name, func(t *testing.T) {
			withClaim(t, func(f *fixture) {
				runner := f.runner()
				runner.Spec.VolumeClaims["cache"] = claim
				if err := f.api.Update(t.Context(), runner); err != nil {
					t.Fatal(err)
				}
				f.started().setStatus(hasReportedJob)
				f.github.remove = actions.ErrJobStillRunning
				f.settle()
				f.delete()
				f.settle()
				f.github.remove = nil
				f.setPod(exits(0))
				f.elapse(rules.BusyRetryBackoff)
				f.settle()
				runner = f.runner()
				switch {
				case claim == "" && runner != nil:
					t.Errorf("the runner is left: %+v", runner.Status)
				case claim != "" && (runner == nil || runner.Status.Phase != v1alpha1.EphemeralRunnerPhaseSucceeded ||
					runner.Status.Reason != v1alpha1.ReasonVolumeClaimAwaited):
					t.Errorf("runner %+v, want one that has succeeded and waits", runner)
				}
				f.elapseMinutes(2)
				f.wantGone()
			})
		})
	}
}

// The listener comes back, and no report does: the runner goes a minute later, though nothing tells it of the listener.
func TestARunnerWaitsNoLongerThanItsListenerIsAway(t *testing.T) {
	listens := func(set *v1alpha1.AutoscalingRunnerSet, status metav1.ConditionStatus) {
		set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: status,
			LastTransitionTime: metav1.Now()}}
	}
	withClaim(t, func(f *fixture) {
		f.endJob("")
		wait := f.reconcile().RequeueAfter
		set := &v1alpha1.AutoscalingRunnerSet{}
		if !controllertest.Read(f, f.api, client.ObjectKeyFromObject(controllertest.Origin(newSet())), set) {
			t.Fatal("no set")
		}
		listens(set, metav1.ConditionTrue)
		if err := f.api.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		const most = 70 * time.Second
		for began := time.Now(); f.runner() != nil && wait > 0; wait = f.reconcile().RequeueAfter {
			f.elapse(wait)
			if waited := time.Since(began); waited > most {
				t.Fatalf("the runner is left after %s", waited)
			}
		}
		f.settle()
		f.wantGone()
	}, func(set *v1alpha1.AutoscalingRunnerSet) { listens(set, metav1.ConditionFalse) })
}

// A claim that the runner can't have is the API server's refusal of nothing: the runner gives way, and others get new
// claims.
func TestARunnerThatCantHaveItsClaimGivesWay(t *testing.T) {
	withClaim(t, func(f *fixture) {
		others := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cacheClaim}}
		controllertest.Create(t, f.api, others)
		f.settle()
		if got := f.runner().Status.Reason; got != v1alpha1.ReasonVolumeClaimUnusable {
			t.Errorf("the runner waits for %s", got)
		}
		if f.pod() != nil {
			t.Error("a pod mounts somebody else's claim")
		}
		f.elapse(time.Second)
		if volumeclaims.Belongs(controllertest.Origin(newSet()), others) {
			t.Error("the claim is the set's")
		}
	})
}

// In mode Snapshot a claim says after a trusted job that a snapshot may be made of it; after others it goes.
func TestAClaimIsCommittedAfterATrustedJob(t *testing.T) {
	for name, test := range map[string]struct {
		event, result string
		committed     bool
	}{
		"a push that succeeded": {"push", "succeeded", true},
		"a schedule":            {"schedule", "succeeded", true},
		"a push that failed":    {"push", "failed", false},
		"a pull request":        {"pull_request", "succeeded", false},
		"an unknown event":      {"", "succeeded", false},
	} {
		t.Run(name, func(t *testing.T) {
			withClaim(t, func(f *fixture) {
				f.started()
				runner := f.runner()
				runner.Status.JobID, runner.Status.JobRepositoryName = "job", "acme/app"
				runner.Status.Event, runner.Status.JobResult = test.event, test.result
				if err := f.api.Status().Update(f.Context(), runner); err != nil {
					t.Fatal(err)
				}
				f.setPod(exits(0))
				f.settle()
				if f.runner() != nil { // else it is gone by itself, after its job
					f.delete()
				}
				f.settle()
				f.elapse(10 * time.Minute) // an unknown event is waited for
				f.settle()
				f.wantGone()
				claim := f.claim()
				if claim == nil {
					if test.committed {
						t.Error("the claim is gone")
					}
					return
				}
				commit, is := volumesnapshots.ParseCommit(claim.Annotations[v1alpha1.AnnotationVolumeClaimCommit])
				if is != test.committed || (is && (commit.Job.Event != test.event || commit.Job.Repository != "acme/app" ||
					len(commit.Templates) != 1)) {
					t.Errorf("the claim says %+v", claim.Annotations)
				}
			}, func(set *v1alpha1.AutoscalingRunnerSet) {
				set.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{Mode: v1alpha1.SnapshotClaims}
			})
		})
	}
}
