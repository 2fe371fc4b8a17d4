package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/volumesnapshots"
	"github.com/harrier-ci/harrier/test/rig"
)

// snapshotDefinition is the kind as far as the product uses it. The real one, which is checked more strictly, comes with
// the snapshot controller.
const snapshotDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: volumesnapshots.snapshot.storage.k8s.io
  annotations:
    api-approved.kubernetes.io: https://github.com/kubernetes-csi/external-snapshotter/pull/814
spec:
  group: snapshot.storage.k8s.io
  names: {kind: VolumeSnapshot, listKind: VolumeSnapshotList, plural: volumesnapshots, singular: volumesnapshot}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [source]
              properties:
                source: {type: object, properties: {persistentVolumeClaimName: {type: string}}}
                volumeSnapshotClassName: {type: string}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// snapshotList returns an empty list of VolumeSnapshots.
func snapshotList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(volumesnapshots.Kind.GroupVersion().WithKind("VolumeSnapshotList"))
	return list
}

// withSnapshots returns the shared cluster with the kind VolumeSnapshot, which stays.
func withSnapshots(t *testing.T) *testkube.Cluster {
	t.Helper()
	cluster, definition := testkube.Shared(t), &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(snapshotDefinition), definition); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client().Create(t.Context(), definition); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() error { return cluster.Client().List(t.Context(), snapshotList()) },
		rig.Patience).Should(gomega.Succeed(), "the kind is served")
	return cluster
}

// playSnapshots plays a snapshot controller until the test ends: it gives each snapshot in the runners' namespace the
// status that answer returns.
func playSnapshots(t *testing.T, r *rig.Rig, answer func(claim string) map[string]any) {
	t.Helper()
	api := r.Cluster.Client()
	watching, err := api.Watch(t.Context(), snapshotList(), client.InNamespace(r.RunnerNamespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watching.Stop)
	go func() {
		for event := range watching.ResultChan() {
			object, is := event.Object.(*unstructured.Unstructured)
			if !is || event.Type == watch.Deleted || object.Object["status"] != nil {
				continue
			}
			claim, _, _ := unstructured.NestedString(object.Object, "spec", "source", "persistentVolumeClaimName")
			object.Object["status"] = answer(claim)
			if err := api.Status().Update(context.WithoutCancel(t.Context()), object); err != nil && t.Context().Err() == nil {
				t.Errorf("play a snapshot controller: %v", err)
			}
		}
	}()
}

// snapshotsOf returns the names of the VolumeSnapshots in the runners' namespace.
func snapshotsOf(t *testing.T, r *rig.Rig) (names []string) {
	t.Helper()
	list := snapshotList()
	if err := r.Cluster.Client().List(t.Context(), list, client.InNamespace(r.RunnerNamespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

// watchSources watches the claims that are made until the test ends. The returned function lists what they are copies
// of, "" for an empty one.
func watchSources(t *testing.T, r *rig.Rig) func() []string {
	t.Helper()
	watching, err := r.Cluster.Client().Watch(t.Context(), &corev1.PersistentVolumeClaimList{},
		client.InNamespace(r.RunnerNamespace))
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan string, 1000)
	go func() {
		for event := range watching.ResultChan() {
			if claim, is := event.Object.(*corev1.PersistentVolumeClaim); is && event.Type == watch.Added {
				source := ""
				if claim.Spec.DataSource != nil {
					source = claim.Spec.DataSource.Kind + " " + claim.Spec.DataSource.Name
				}
				made <- source
			}
		}
	}()
	t.Cleanup(watching.Stop)
	return func() (sources []string) {
		for {
			select {
			case source := <-made:
				sources = append(sources, source)
			default:
				return sources
			}
		}
	}
}

// A push leaves a snapshot; the jobs of pull requests, a wave of which the manager is killed in, all start from it and
// leave nothing; and nothing is left of the set after its uninstallation.
func TestJobsStartFromTheSnapshotOfTheLastPush(t *testing.T) {
	const wave = 5
	r := rig.Start(t, withSnapshots(t), rig.Options{MaxRunners: wave,
		ScaleSetValues: cacheTemplate(map[string]any{"mode": "Snapshot", "snapshotClassName": "fast"})})
	playSnapshots(t, r, func(string) map[string]any {
		return map[string]any{"readyToUse": true, "restoreSize": "1Gi"}
	})
	g := gomega.NewWithT(t)
	sources := watchSources(t, r)
	queue := func(event string, jobs int) (ids []int64) {
		for range jobs {
			ids = append(ids, r.Queue(fakegithub.JobRequest{ScaleSet: rig.DefaultSet, Event: event,
				Duration: fakegithub.Duration(2 * time.Second)})...)
		}
		return ids
	}
	r.WaitDone(queue("push", 1))
	newest := func() *v1alpha1.VolumeSnapshotStatus { return readSet(t, r, rig.DefaultSet).Status.NewestSnapshot }
	g.Eventually(newest, rig.Patience).ShouldNot(gomega.BeNil())
	first := newest()
	if first.Job.Event != "push" || first.Job.Result != "succeeded" || first.Job.Runner == "" {
		t.Errorf("made of %+v", first.Job)
	}
	if made := sources(); !slices.Contains(made, "") {
		t.Errorf("the first claims are copies of %v", made)
	}
	r.AwaitQuiet()
	g.Eventually(func() int { return len(claimsOf(t, r)) }, rig.Patience).Should(gomega.BeZero(), "claims go with their runners")

	ids := queue("pull_request", wave)
	r.AwaitCompleted(ids, 1)
	r.KillManager()
	r.WaitDone(ids)
	r.AwaitQuiet()
	g.Eventually(func() int { return len(claimsOf(t, r)) }, 2*rig.Patience).Should(gomega.BeZero(), "claims go with their runners")
	made := sources()
	if len(made) < wave || slices.ContainsFunc(made, func(source string) bool { return source != "VolumeSnapshot "+first.Names[0] }) {
		t.Errorf("%d claims, copies of %v, want at least %d of %v", len(made), made, wave, first.Names)
	}
	if names := snapshotsOf(t, r); !slices.Equal(names, first.Names) {
		t.Errorf("VolumeSnapshots %v after jobs of pull requests, want %v", names, first.Names)
	}
	if refused := r.Requests().Refused; len(refused) > 0 {
		t.Errorf("refused: %v", refused)
	}

	r.UninstallSet(rig.DefaultSet)
	r.AwaitUninstalled()
	g.Eventually(func() []string { return snapshotsOf(t, r) }, 2*rig.Patience).Should(gomega.BeEmpty(), "snapshots are left")
}

// A snapshot that fails never counts, and the set says why.
func TestASnapshotThatFailsIsTold(t *testing.T) {
	const cause = "failed to get class slow"
	r := rig.Start(t, withSnapshots(t), rig.Options{MaxRunners: 2,
		ScaleSetValues: cacheTemplate(map[string]any{"mode": "Snapshot", "snapshotClassName": "slow"})})
	playSnapshots(t, r, func(string) map[string]any {
		return map[string]any{"readyToUse": false, "error": map[string]any{"message": cause}}
	})
	r.WaitDone(r.Queue(fakegithub.JobRequest{ScaleSet: rig.DefaultSet, Event: "push",
		Duration: fakegithub.Duration(time.Second)}))
	g := gomega.NewWithT(t)
	said := func() string {
		set := readSet(t, r, rig.DefaultSet)
		for _, condition := range set.Status.Conditions {
			if condition.Type == v1alpha1.ConditionSnapshotsReady && condition.Reason == v1alpha1.ReasonSnapshotFailed {
				return condition.Message
			}
		}
		return ""
	}
	g.Eventually(said, 2*rig.Patience).Should(gomega.ContainSubstring(cause))
	if newest := readSet(t, r, rig.DefaultSet).Status.NewestSnapshot; newest != nil {
		t.Errorf("runners start from %+v", newest)
	}
}
