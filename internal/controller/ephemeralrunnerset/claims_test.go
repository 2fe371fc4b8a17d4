package ephemeralrunnerset_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// withClaims runs a test with a set of that many replicas, whose scale set has claims, at most max of them.
func withClaims(t *testing.T, replicas, most int, test func(f *fixture)) {
	t.Helper()
	set := newSet(replicas)
	origin := controllertest.Origin(set)
	origin.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{
		{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"}}}
	origin.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{Max: &most, MaxUsedPercent: new(90)}
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		f.reconcile() // its finalizer
		f.reconcile()
		test(f)
	}, set, origin)
}

// claims returns the names of the claims that runners have, sorted.
func (f *fixture) claims() (names []string) {
	f.Helper()
	for _, r := range f.runners() {
		names = append(names, slices.Collect(maps.Values(r.Spec.VolumeClaims))...)
	}
	slices.Sort(names)
	return names
}

// provision creates the claims that runners name, as their own controller does, and binds them.
func (f *fixture) provision() {
	f.Helper()
	origin := &v1alpha1.AutoscalingRunnerSet{}
	controllertest.Read(f, f.api, setKey, origin)
	for _, r := range f.runners() {
		for _, claim := range volumeclaims.Missing(origin, &r, func(string) *corev1.PersistentVolumeClaim {
			return nil
		}) {
			claim.Status.Phase = corev1.ClaimBound
			if !controllertest.Read(f, f.api, runnerKey(claim.Name), &corev1.PersistentVolumeClaim{}) {
				controllertest.Create(f, f.api, claim)
			}
		}
	}
}

func (f *fixture) deleteAll() {
	f.Helper()
	for _, r := range f.runners() {
		r.Finalizers = nil
		if err := f.api.Update(f.Context(), &r); err != nil {
			f.Fatal(err)
		}
		if err := f.api.Delete(f.Context(), &r); err != nil {
			f.Fatal(err)
		}
	}
}

func TestRunnersShareClaimsOneAfterAnother(t *testing.T) {
	withClaims(t, 3, 2, func(f *fixture) {
		first := f.claims()
		if len(first) != 2 || first[0] == first[1] {
			t.Fatalf("the runners have the claims %v, want two, one each", first)
		}
		f.provision()
		f.reconcile()
		controllertest.WantCondition(t, f.set().Status.Conditions, v1alpha1.ConditionVolumeClaimsReady,
			metav1.ConditionFalse, v1alpha1.ReasonVolumeClaimsExhausted)
		controllertest.Elapse(reportPeriod)
		f.reconcile()
		if got := f.set().Status.VolumeClaims; got == nil || *got != (v1alpha1.VolumeClaimCounts{Total: 2, Leased: 2}) {
			t.Errorf("status.volumeClaims = %+v", got)
		}
		f.deleteAll()
		f.publish(2)
		f.reconcile()
		if again := f.claims(); !slices.Equal(again, first) {
			t.Errorf("the next runners have the claims %v, want those of the first, %v", again, first)
		}
		controllertest.Elapse(reportPeriod)
		f.reconcile()
		controllertest.WantCondition(t, f.set().Status.Conditions, v1alpha1.ConditionVolumeClaimsReady,
			metav1.ConditionTrue,
			"ClaimsReady")
	})
}

// How full a claim was at the end of its last job is in the status. A full one is deleted although its runner is there.
func TestAFullClaimIsToldAndDeleted(t *testing.T) {
	for _, percent := range []int{70, 91} {
		withClaims(t, 1, 1, func(f *fixture) {
			f.provision()
			runner := f.only()
			f.showClaimedPod(runner, func(pod *corev1.Pod) {
				pod.Status.Phase = corev1.PodSucceeded
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.RunnerContainerName,
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: fmt.Sprintf(
						`{"volume":1,"name":"cache","bytes":100,"usedBytes":%d}`, percent)}}}}
			})
			f.changeStatus(func(s *v1alpha1.EphemeralRunnerStatus) {
				s.Phase, s.JobID = v1alpha1.EphemeralRunnerPhaseSucceeded, "job"
			})
			f.publish(0)
			f.reconcile()
			controllertest.Elapse(reportPeriod)
			f.reconcile()
			exists := f.claimExists(runner.Spec.VolumeClaims["cache"])
			if got := f.set().Status.VolumeClaims; exists && (got == nil || got.FullestPercent != percent) {
				t.Errorf("status.volumeClaims = %+v", got)
			}
			if exists != (percent == 70) {
				t.Errorf("%d %% is used: the claim exists: %t", percent, exists)
			}
		})
	}
}

// The answer to a creation is lost: until it is known whether there is a runner, nobody else gets its claims, and it is
// repeated with the same.
func TestARepeatedCreationHasTheSameClaims(t *testing.T) {
	withClaims(t, 0, 2, func(f *fixture) {
		f.refuse, f.made, f.late = errNoAnswer, true, true
		f.publish(1)
		if _, err := f.pass(); err == nil {
			t.Fatal("the pass has not failed")
		}
		first := f.claims()
		f.deleteAll() // it may just as well not have been created
		f.refuse, f.late = nil, false
		f.publish(2)
		controllertest.Elapse(firstCreateBackoff)
		f.reconcile()
		f.reconcile()
		if got := f.claims(); len(got) != 2 || !slices.Contains(got, first[0]) {
			t.Errorf("the runners have the claims %v, want two, one of them %s", got, first[0])
		}
	})
}

// Another manager takes over, whose watch shows no runner: it gives none of their claims away.
func TestNextManagerLeasesNothingThatItsWatchDoesNotShowInUse(t *testing.T) {
	withClaims(t, 2, 5, func(f *fixture) {
		f.provision()
		first := f.claims()
		f.takeOver()
		f.publish(4)
		for range 3 {
			f.reconcile()
		}
		if got := f.claims(); !slices.Equal(got, first) {
			t.Errorf("the runners have the claims %v while the watch lags, want %v", got, first)
		}
		f.late = false
		controllertest.Elapse(unseenPause)
		f.reconcile()
		f.reconcile()
		got := f.claims()
		if slices.Sort(got); len(slices.Compact(got)) != 4 {
			t.Errorf("the runners have the claims %v, want four, one each", got)
		}
	})
}

// Another manager takes over, and the runners that it finds in a list go before its watch has shown one: the next list
// says so, within seconds.
func TestNextManagerDoesNotAwaitRunnersThatGoWhileItLists(t *testing.T) {
	withClaims(t, 2, 5, func(f *fixture) {
		f.provision()
		f.takeOver()
		f.publish(4)
		f.reconcile()
		f.deleteAll()
		f.late = false
		for range 3 {
			controllertest.Elapse(f.reconcile().RequeueAfter)
		}
		f.wantRunners(4)
	})
}

// The set is moved to another runner group. An idle runner would give its first job there what jobs of the old group
// have left, so GitHub is asked to remove it; one with a job finishes it.
func TestIdleRunnersLeaveTheClaimsOfAFormerGroup(t *testing.T) {
	withClaims(t, 2, 5, func(f *fixture) {
		f.provision()
		f.bringUp()
		busy := f.runners()[0]
		busy.Status.JobID, busy.Status.JobRequestID = "job", 1
		if err := f.api.Status().Update(t.Context(), &busy); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
		if f.asked != 0 {
			t.Fatalf("GitHub was asked %d times to remove a runner of the set's own group", f.asked)
		}
		origin := &v1alpha1.AutoscalingRunnerSet{}
		controllertest.Read(t, f.api, setKey, origin)
		origin.Spec.RunnerGroup = "prod"
		origin.Status.Registration = &v1alpha1.ScaleSetRegistration{URL: origin.Spec.GitHubConfigUrl, ID: 1,
			Name:  "set",
			Group: "prod"}
		if err := f.api.Update(t.Context(), origin); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			f.reconcile()
			controllertest.Elapse(reportPeriod)
		}
		if f.asked != 1 {
			t.Errorf("GitHub was asked %d times to remove the idle runner", f.asked)
		}
		for _, r := range f.runners() {
			if r.DeletionTimestamp == nil && (r.UID == busy.UID) != f.claimExists(r.Spec.VolumeClaims["cache"]) {
				t.Errorf("runner %s has claim %s", r.Name, r.Spec.VolumeClaims["cache"])
			}
		}
	})
}

// The last template goes, and the right to delete claims with it: the manager tries again more and more seldom, and
// says so all the time.
func TestForbiddenDeletionsAreTriedMoreAndMoreSeldom(t *testing.T) {
	withClaims(t, 1, 1, func(f *fixture) {
		f.provision()
		f.publish(0)
		f.deleteAll()
		origin := &v1alpha1.AutoscalingRunnerSet{}
		controllertest.Read(t, f.api, setKey, origin)
		origin.Spec.RunnerVolumeClaims = v1alpha1.RunnerVolumeClaims{}
		if err := f.api.Update(t.Context(), origin); err != nil {
			t.Fatal(err)
		}
		tries, allowed := 0, false
		f.cache.WithWatch = interceptor.NewClient(f.api, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object,
				options ...client.DeleteOption) error {
				if _, is := object.(*corev1.PersistentVolumeClaim); is && !allowed {
					tries++
					return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), object.GetName(), nil)
				}
				return c.Delete(ctx, object, options...)
			},
		})
		for range 120 {
			f.reconcile()
			controllertest.Elapse(time.Minute)
		}
		if tries < 3 || tries > 9 {
			t.Errorf("%d tries in two hours", tries)
		}
		controllertest.WantCondition(t, f.set().Status.Conditions, v1alpha1.ConditionVolumeClaimsReady,
			metav1.ConditionFalse, v1alpha1.ReasonVolumeClaimRefused)
		allowed = true
		for range 65 {
			f.reconcile()
			controllertest.Elapse(time.Minute)
		}
		var left corev1.PersistentVolumeClaimList
		if err := f.api.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
			t.Errorf("%d claims are left: %v", len(left.Items), err)
		}
	})
}
