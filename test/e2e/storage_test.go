package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/cluster"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

var storage = flag.Bool("storage", false, "start a CSI stack, which tests with disks need: make e2e-storage")

// folders is the folder with the volumes and snapshots of the cluster's CSI driver, a folder each (hack/csi).
var folders string

// disk makes a StorageClass of the CSI driver; it goes with the cluster.
func disk(t *testing.T, class string, binding storagev1.VolumeBindingMode) {
	t.Helper()
	if folders == "" {
		t.Fatal("the cluster has no CSI driver: make e2e-storage runs this test")
	}
	reclaim := corev1.PersistentVolumeReclaimDelete
	if err := kube.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: cluster.CSIDriver,
		VolumeBindingMode: &binding, ReclaimPolicy: &reclaim,
	}); err != nil {
		t.Fatal(err)
	}
}

// ofSnapshots returns a kind of the snapshot controller's.
func ofSnapshots(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: kind}
}

// snapshotClass makes a VolumeSnapshotClass of the CSI driver, or gives it other parameters.
func snapshotClass(t *testing.T, name string, parameters map[string]any) {
	t.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{
		"driver": cluster.CSIDriver, "deletionPolicy": "Delete", "parameters": parameters,
	}}
	class.SetGroupVersionKind(ofSnapshots("VolumeSnapshotClass"))
	class.SetName(name)
	before := class.DeepCopy()
	err := kube.Get(t.Context(), client.ObjectKeyFromObject(class), before)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err == nil {
		class.SetResourceVersion(before.GetResourceVersion())
		err = kube.Update(t.Context(), class)
	} else {
		err = kube.Create(t.Context(), class)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// cache gives the runners a tool cache on a claim of the class, and the pool.
func (s *scaleSet) cache(class string, pool site.Values) {
	s.values["volumeClaimTemplates"] = claimTemplates("cache", class)
	s.values["volumeClaimPool"] = pool
	s.setEnv("RUNNER_TOOL_CACHE", "/cache")
	mounts, _ := s.container()["volumeMounts"].([]site.Values)
	s.container()["volumeMounts"] = append(mounts, site.Values{"name": "cache", "mountPath": "/cache"})
}

// claimOf returns the name of the claim that a pod mounts, empty if it mounts none.
func claimOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			return claim.ClaimName
		}
	}
	return ""
}

// folderOf returns the folder that a runner's pod has mounted.
func (s *scaleSet) folderOf(runner string) string {
	s.t.Helper()
	pod := s.podNamed(runner)
	return s.folderOfClaim(claimOf(&pod))
}

// folderOfClaim returns the folder that is a claim's volume.
func (s *scaleSet) folderOfClaim(name string) string {
	s.t.Helper()
	var claim corev1.PersistentVolumeClaim
	var volume corev1.PersistentVolume
	err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &claim)
	if err == nil {
		err = kube.Get(s.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, &volume)
	}
	if err != nil || volume.Spec.CSI == nil {
		s.t.Fatalf("claim %s has volume %+v: %v", name, volume.Spec, err)
	}
	return filepath.Join(folders, "volumes", volume.Spec.CSI.VolumeHandle)
}

// run is runOn for tests that don't need the folder.
func (s *scaleSet) run(event string, look func(uses []use)) string {
	s.t.Helper()
	return s.runOn(event, func(_ string, uses []use) { look(uses) })
}

// runOn runs a job of the event until the function returns, which gets the runner's folder, and all that have used it
// or what it is a copy of. It returns the runner's name.
func (s *scaleSet) runOn(event string, look func(folder string, uses []use)) string {
	s.t.Helper()
	ids, err := s.github.QueueJobs(s.t.Context(), fakegithub.JobRequest{
		ScaleSet: s.name, Event: event, Duration: fakegithub.Duration(longJob)})
	if err != nil {
		s.t.Fatal(err)
	}
	runner := s.awaitJobs(ids, state.Running)[0].Runner
	folder := s.folderOf(runner)
	uses := usesOf(s.t, folder)
	if last := uses[len(uses)-1]; last.runner != runner {
		s.t.Errorf("runner %s is not the last in its folder: %v", runner, uses)
	}
	look(folder, uses)
	s.endJobs()
	s.awaitSuccess(ids)
	// Not all: one that has lost its job stays as evidence.
	s.await(s.t.Context(), "runner "+runner+" to be gone", func() (string, error) {
		err := kube.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: runner}, &v1alpha1.EphemeralRunner{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is there", err
	})
	return runner
}

// warm fails the test unless the last of the users found what an earlier one has left.
func warm(t *testing.T, what string, uses []use) {
	t.Helper()
	if len(uses) < 2 || uses[len(uses)-1].took >= downloadTime {
		t.Errorf("%s starts cold: %v", what, uses)
	}
}

// usedBy reports whether a runner has written to the folder, or to what it is a copy of.
func usedBy(uses []use, runner string) bool {
	return slices.ContainsFunc(uses, func(u use) bool { return u.runner == runner })
}

// volumeSnapshots returns those of the set's namespace.
func (s *scaleSet) volumeSnapshots() []unstructured.Unstructured {
	s.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(ofSnapshots("VolumeSnapshotList"))
	if err := kube.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// awaitNewest waits until runners start from another snapshot than the given one, and returns its name.
func (s *scaleSet) awaitNewest(than string) string {
	s.t.Helper()
	var name string
	s.await(s.t.Context(), "a snapshot that is newer than "+than, func() (string, error) {
		set, err := s.object(s.t.Context())
		if err != nil || set.Status.NewestSnapshot == nil {
			return fmt.Sprintf("there is none: %+v", set.Status.Conditions), err
		}
		if name = set.Status.NewestSnapshot.Names[0]; name == than {
			return "it is the newest", nil
		}
		return "", nil
	})
	return name
}

// awaitDue waits until the next snapshot may be made. What ends before only goes.
func (s *scaleSet) awaitDue() {
	s.t.Helper()
	s.await(s.t.Context(), "snapshotInterval to pass", func() (string, error) {
		for _, each := range s.volumeSnapshots() {
			if age := time.Since(each.GetCreationTimestamp().Time); age < snapshotInterval+time.Second {
				return fmt.Sprintf("%s is %s old", each.GetName(), age.Round(time.Second)), nil
			}
		}
		return "", nil
	})
}

// awaitNothingStored waits until no volume is left of the set's namespace, in the cluster and at the driver, and no
// snapshot but those that are named.
func (s *scaleSet) awaitNothingStored(kept ...string) {
	s.t.Helper()
	s.await(s.t.Context(), "no volume to be left", func() (string, error) {
		var volumes corev1.PersistentVolumeList
		if err := kube.List(s.t.Context(), &volumes); err != nil {
			return "", err
		}
		for i := range volumes.Items {
			if of := volumes.Items[i].Spec.ClaimRef; of != nil && of.Namespace == s.namespace {
				return fmt.Sprintf("volume %s of claim %s is %s", volumes.Items[i].Name, of.Name,
					volumes.Items[i].Status.Phase), nil
			}
		}
		var handles []string
		for _, left := range s.volumeSnapshots() {
			if !slices.Contains(kept, left.GetName()) {
				return "VolumeSnapshot " + left.GetName(), nil
			}
			handles = append(handles, s.handleOf(&left))
		}
		return s.contentsLeft(handles)
	})
}

// handleOf returns the driver's name of a VolumeSnapshot, empty while it has none.
func (s *scaleSet) handleOf(snapshot *unstructured.Unstructured) string {
	s.t.Helper()
	name, _, _ := unstructured.NestedString(snapshot.Object, "status", "boundVolumeSnapshotContentName")
	content := &unstructured.Unstructured{}
	content.SetGroupVersionKind(ofSnapshots("VolumeSnapshotContent"))
	if err := kube.Get(s.t.Context(), client.ObjectKey{Name: name}, content); err != nil {
		s.t.Fatal(err)
	}
	handle, _, _ := unstructured.NestedString(content.Object, "status", "snapshotHandle")
	return handle
}

// contentsLeft says which VolumeSnapshotContents there are of the set's namespace beside the handles, and which of the
// handles the driver doesn't have.
func (s *scaleSet) contentsLeft(handles []string) (string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(ofSnapshots("VolumeSnapshotContentList"))
	if err := kube.List(s.t.Context(), list); err != nil {
		return "", err
	}
	for _, content := range list.Items {
		namespace, _, _ := unstructured.NestedString(content.Object, "spec", "volumeSnapshotRef", "namespace")
		handle, _, _ := unstructured.NestedString(content.Object, "status", "snapshotHandle")
		if namespace == s.namespace && !slices.Contains(handles, handle) {
			return "VolumeSnapshotContent " + content.GetName(), nil
		}
	}
	for _, handle := range handles {
		if _, err := os.Stat(filepath.Join(folders, "snapshots", handle)); err != nil {
			return "", err
		}
	}
	return "", nil
}

// personsPod is the name of a pod that isn't a runner's.
const personsPod = "debug"

// lookInto has a pod of nobody's set mount a claim. Its container never starts, and needn't.
func (s *scaleSet) lookInto(claim string) {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: personsPod}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "shell", Image: "localhost/nothing", ImagePullPolicy: corev1.PullNever,
			VolumeMounts: []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}},
		Volumes: []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
	if err := kube.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
}

// lookAway ends that.
func (s *scaleSet) lookAway() {
	s.t.Helper()
	pod := s.podNamed(personsPod)
	kill(s.t, pod)
}
