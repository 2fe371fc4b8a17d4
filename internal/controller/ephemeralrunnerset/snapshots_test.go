package ephemeralrunnerset_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
)

// Limits that the room of snapshots decides.
const (
	snapshotsPeriod = time.Minute
	unmountGrace    = 15 * time.Second
)

// withSnapshots runs a test with a set of that many replicas, in mode Snapshot.
func withSnapshots(t *testing.T, replicas int, test func(f *fixture)) {
	t.Helper()
	set := newSet(replicas)
	origin := controllertest.Origin(set)
	origin.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{
		Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"},
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}}},
	}}
	origin.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{Mode: v1alpha1.SnapshotClaims}
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		f.reconcile() // its finalizer
		f.reconcile()
		test(f)
	}, set, origin)
}

// snapshots returns the VolumeSnapshots that the API server has.
func (f *fixture) snapshots() []unstructured.Unstructured {
	f.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(volumesnapshots.Kind.GroupVersion().WithKind("VolumeSnapshotList"))
	if err := f.api.List(f.Context(), list); err != nil {
		f.Fatal(err)
	}
	return list.Items
}

// claimsThere returns the names of the claims that exist.
func (f *fixture) claimsThere() (names []string) {
	f.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	if err := f.api.List(f.Context(), list); err != nil {
		f.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// endJobs has the jobs of all runners end trusted, and the runners go, as their own controller does.
func (f *fixture) endJobs() {
	f.Helper()
	for _, r := range f.runners() {
		r.Status.Event, r.Status.JobResult = "push", "succeeded"
		for _, name := range r.Spec.VolumeClaims {
			claim := &corev1.PersistentVolumeClaim{}
			if controllertest.Read(f, f.api, runnerKey(name), claim) {
				claim.Annotations = map[string]string{
					v1alpha1.AnnotationVolumeClaimCommit: volumesnapshots.NewCommit(&r, time.Now()).String()}
				if err := f.api.Update(f.Context(), claim); err != nil {
					f.Fatal(err)
				}
			}
		}
	}
	f.deleteAll()
}

// cut has the snapshot controller write the status of all VolumeSnapshots.
func (f *fixture) cut(status map[string]any) {
	f.Helper()
	for _, object := range f.snapshots() {
		object.Object["status"] = status
		if err := f.api.Update(f.Context(), &object); err != nil {
			f.Fatal(err)
		}
	}
}

func ready() map[string]any { return map[string]any{"readyToUse": true, "restoreSize": "10Gi"} }

func (f *fixture) wantSnapshots(status metav1.ConditionStatus, reason string) {
	f.Helper()
	controllertest.Elapse(reportPeriod)
	f.reconcile()
	controllertest.WantCondition(f, f.set().Status.Conditions, v1alpha1.ConditionSnapshotsReady, status, reason)
}

// copiesOf counts the runners whose claims are copies of a snapshot.
func (f *fixture) copiesOf(seed string) (count int) {
	for _, r := range f.runners() {
		if r.Annotations[v1alpha1.AnnotationVolumeClaimSeed] == seed {
			count++
		}
	}
	return count
}

// wantNewest fails the test unless the status names these snapshots, made after a job of that event.
func (f *fixture) wantNewest(names []string, event string) {
	f.Helper()
	newest := f.set().Status.NewestSnapshot
	if newest == nil || !slices.Equal(newest.Names, names) || newest.Job.Event != event {
		f.Errorf("status.newestSnapshot = %+v", newest)
	}
}

// A runner without a snapshot starts with an empty claim; after its job a snapshot is made, and the next runners' claims
// are copies of it.
func TestTheNextRunnersStartFromTheSnapshot(t *testing.T) {
	withSnapshots(t, 1, func(f *fixture) {
		first := f.claims()
		if len(first) != 1 || f.runners()[0].Annotations[v1alpha1.AnnotationVolumeClaimSeed] != "" {
			t.Fatalf("the first runner has %v, and is a copy", first)
		}
		f.provision()
		f.wantSnapshots(metav1.ConditionTrue, "NoSnapshotYet")
		f.endJobs()
		f.publish(0)
		f.reconcile()
		if len(f.snapshots()) != 0 {
			t.Error("a snapshot of a volume that may still be mounted")
		}
		controllertest.Elapse(unmountGrace)
		f.reconcile()
		made := f.snapshots()
		if len(made) != 1 || made[0].GetName() != first[0] {
			t.Fatalf("made %v, want one of %s", made, first)
		}
		owner := metav1.GetControllerOfNoCopy(&made[0])
		if owner == nil || owner.Kind != "AutoscalingRunnerSet" {
			t.Errorf("the owner is %v", owner)
		}
		f.publish(1)
		f.reconcile()
		if got := f.claims(); slices.Equal(got, first) || f.runners()[0].Annotations[v1alpha1.AnnotationVolumeClaimSeed] != "" {
			t.Errorf("the second runner has %v, or a copy of what is not ready", got)
		}
		f.cut(ready())
		controllertest.Elapse(5 * time.Second)
		f.reconcile()
		if there := f.claimsThere(); slices.Contains(there, first[0]) {
			t.Errorf("claim %s stays after its snapshot is ready", first)
		}
		f.publish(3)
		f.reconcile()
		seed := first[0][len(first[0])-5:]
		copied := f.copiesOf(seed)
		if claims := f.claims(); copied != 2 || len(slices.Compact(claims)) != 3 {
			t.Errorf("%d of the new runners are copies of the snapshot, with claims %v, want two and three different ones",
				copied, claims)
		}
		f.wantSnapshots(metav1.ConditionTrue, "SnapshotReady")
		f.wantNewest(first, "push")
	})
}

// The claims of a runner whose job is not trusted go with it, and no other runner gets them.
func TestAClaimGoesWithItsRunner(t *testing.T) {
	withSnapshots(t, 1, func(f *fixture) {
		first := f.claims()
		f.provision()
		f.reconcile()
		f.deleteAll()
		f.publish(1)
		f.reconcile()
		if again := f.claims(); slices.Equal(again, first) {
			t.Errorf("the next runner has the claim of the first, %v", again)
		}
		f.reconcile()
		if there := f.claimsThere(); slices.Contains(there, first[0]) {
			t.Errorf("claim %s stays", first[0])
		}
		controllertest.Elapse(unmountGrace)
		f.reconcile()
		if len(f.snapshots()) != 0 {
			t.Error("a snapshot after a job that is not trusted")
		}
	})
}

// A manager that starts anew goes on where the last one was: nothing that matters was in its memory.
func TestSnapshotsSurviveARestart(t *testing.T) {
	withSnapshots(t, 1, func(f *fixture) {
		first := f.claims()
		f.provision()
		f.endJobs()
		f.publish(0)
		f.reconcile()
		f.restart()
		controllertest.Elapse(unmountGrace)
		f.reconcile()
		f.reconcile()
		if made := f.snapshots(); len(made) != 1 {
			t.Fatalf("%d snapshots made, want one", len(made))
		}
		f.restart()
		f.reconcile()
		f.cut(ready())
		controllertest.Elapse(snapshotsPeriod)
		f.restart()
		f.publish(1)
		f.reconcile()
		f.reconcile()
		if got := f.runners(); len(got) != 1 || got[0].Annotations[v1alpha1.AnnotationVolumeClaimSeed] == "" {
			t.Fatalf("runners %v, want one that starts from the snapshot of %s", got, first)
		}
	})
}

// answers makes the API server answer requests about VolumeSnapshots with an error while it is not nil.
func (f *fixture) answers(list, create *error) {
	about := func(object client.Object) bool {
		return object.GetObjectKind().GroupVersionKind().Group == volumesnapshots.Kind.Group
	}
	faulty := interceptor.NewClient(f.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, found client.ObjectList, options ...client.ListOption) error {
			if _, is := found.(*unstructured.UnstructuredList); is && *list != nil {
				return *list
			}
			return c.List(ctx, found, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if about(object) && *create != nil {
				return *create
			}
			return c.Create(ctx, object, options...)
		},
	})
	f.cache.WithWatch = faulty
	f.configure(func(o *ephemeralrunnerset.Options) { o.Reader = faulty })
}

var snapshotResource = schema.GroupResource{Group: volumesnapshots.Kind.Group, Resource: "volumesnapshots"}

// Without the kind, runners start, with empty claims; that is told, and heals when it is installed.
func TestAClusterWithoutSnapshotsIsTold(t *testing.T) {
	for name, refusal := range map[string]struct {
		err    error
		reason string
	}{
		"no such kind": {apierrors.NewNotFound(snapshotResource, ""), v1alpha1.ReasonSnapshotKindMissing},
		"no right":     {apierrors.NewForbidden(snapshotResource, "", nil), v1alpha1.ReasonSnapshotRefused},
	} {
		t.Run(name, func(t *testing.T) {
			withSnapshots(t, 0, func(f *fixture) {
				list, create := refusal.err, error(nil)
				f.answers(&list, &create)
				f.publish(1)
				f.reconcile()
				f.reconcile()
				if len(f.claims()) != 1 {
					t.Fatalf("the runner has the claims %v", f.claims())
				}
				f.wantSnapshots(metav1.ConditionFalse, refusal.reason)
				f.provision()
				f.endJobs()
				f.publish(0)
				f.reconcile()
				if there := f.claimsThere(); len(there) != 0 {
					t.Errorf("claims %v wait for a snapshot that can't be made", there)
				}
				list = nil
				controllertest.Elapse(snapshotsPeriod)
				f.wantSnapshots(metav1.ConditionTrue, "NoSnapshotYet")
			})
		})
	}
}

// What isn't known is waited for: a runner that starts empty because the API server was away would be cold for nothing.
func TestRunnersWaitUntilSnapshotsAreKnown(t *testing.T) {
	withSnapshots(t, 0, func(f *fixture) {
		list, create := apierrors.NewServiceUnavailable("etcd"), error(nil)
		away := error(list)
		f.answers(&away, &create)
		f.publish(1)
		if _, err := f.pass(); err == nil {
			t.Error("the pass has not failed")
		}
		if n := len(f.runners()); n != 0 {
			t.Errorf("%d runners, although it is not known what they start from", n)
		}
		away = nil
		controllertest.Elapse(time.Second)
		f.reconcile()
		f.reconcile()
		if n := len(f.runners()); n != 1 {
			t.Errorf("%d runners, want one", n)
		}
	})
}

// A quota that refuses the snapshot is told, and tried again while the claim waits.
func TestARefusedSnapshotIsTold(t *testing.T) {
	withSnapshots(t, 1, func(f *fixture) {
		list, create := error(nil), error(apierrors.NewForbidden(snapshotResource, "x", nil))
		f.answers(&list, &create)
		f.provision()
		f.reconcile()
		f.endJobs()
		f.publish(0)
		f.reconcile()
		controllertest.Elapse(unmountGrace)
		f.reconcile()
		f.wantSnapshots(metav1.ConditionFalse, v1alpha1.ReasonSnapshotRefused)
		if message := conditionOf(f).Message; !strings.Contains(message, "raise the quota") {
			t.Errorf("told is %q", message)
		}
		create = nil
		controllertest.Elapse(time.Minute)
		f.reconcile()
		if len(f.snapshots()) != 1 {
			t.Error("the snapshot is not tried again")
		}
		f.wantSnapshots(metav1.ConditionTrue, "NoSnapshotYet")
	})
}

func conditionOf(f *fixture) metav1.Condition {
	f.Helper()
	for _, condition := range f.set().Status.Conditions {
		if condition.Type == v1alpha1.ConditionSnapshotsReady {
			return condition
		}
	}
	f.Fatal("no condition")
	return metav1.Condition{}
}

// A manager that has made none of the snapshots itself uses the newest, and an older one while copies of that get no
// volume.
func TestRunnersStartFromTheNewestSnapshotThatCanBeCopied(t *testing.T) {
	withSnapshots(t, 0, func(f *fixture) {
		origin := &v1alpha1.AutoscalingRunnerSet{}
		controllertest.Read(f, f.api, setKey, origin)
		for _, suffix := range []string{"bbbbb", "ccccc"} {
			runner := &v1alpha1.EphemeralRunner{}
			runner.Spec.VolumeClaims = map[string]string{"cache": volumeclaims.NameOf(origin, "cache", suffix)}
			commit := volumesnapshots.NewCommit(runner, time.Now())
			object := volumesnapshots.New(origin, volumesnapshots.Claim{Name: runner.Spec.VolumeClaims["cache"],
				Template: "cache", Scope: volumeclaims.Scope(origin), Commit: &commit})
			object.Object["status"] = ready()
			controllertest.Create(f, f.api, object)
			controllertest.Elapse(10 * time.Minute)
		}
		f.restart()
		f.publish(1)
		f.reconcile()
		f.reconcile()
		runner := f.runners()[0]
		if seed := runner.Annotations[v1alpha1.AnnotationVolumeClaimSeed]; seed != "ccccc" {
			t.Fatalf("the runner starts from %q, want the newest", seed)
		}
		// now a copy of it gets no volume
		controllertest.Read(f, f.api, setKey, origin)
		claim := volumeclaims.Missing(origin, &runner, func(string) *corev1.PersistentVolumeClaim { return nil })[0]
		claim.Status.Phase = corev1.ClaimPending
		controllertest.Create(f, f.api, claim)
		said := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: "said"},
			Reason: "ProvisioningFailed", FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now()}
		said.InvolvedObject = corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: claim.Name, UID: claim.UID}
		controllertest.Create(f, f.api, said)
		f.showClaimedPod(&runner, unplaced)
		if waited := f.waitUntilGone(&runner, time.Hour); waited > 3*time.Minute {
			t.Errorf("the runner gave way after %s", waited)
		}
		f.leave(&runner)
		if seed := f.only().Annotations[v1alpha1.AnnotationVolumeClaimSeed]; seed != "bbbbb" {
			t.Errorf("the next runner starts from %q, want the older snapshot", seed)
		}
		f.wantSnapshots(metav1.ConditionFalse, v1alpha1.ReasonSnapshotNotCopied)
	})
}
