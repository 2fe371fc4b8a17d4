package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/hack/site"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// Two waves of jobs share two volumes: the second finds the files of the first. So does a job after a killed runner,
// but none after the job of a pull request: its claim is deleted.
func TestCachesSurviveRunners(t *testing.T) {
	t.Parallel()
	disks := makeDisks(t, "caches", 2)
	github := serve(t, fakegithub.Options{Rules: fakegithub.Rules{RunnerLostAfter: 5 * time.Second}})
	s := prepare(t, github, "caches", 0, 2)
	s.values["volumeClaimTemplates"] = claimTemplates("cache", "caches")
	s.values["volumeClaimPool"] = site.Values{"keepAfter": site.Values{"events": []string{"push"}}}
	s.container()["env"] = []site.Values{{"name": "RUNNER_TOOL_CACHE", "value": "/cache"}}
	s.container()["volumeMounts"] = []site.Values{{"name": "cache", "mountPath": "/cache"}}
	s.install()

	for range 2 {
		s.awaitSuccess(s.queue(2, 2*time.Second))
		s.awaitNoRunners()
	}
	for _, disk := range disks {
		uses := usesOf(t, disk)
		if len(uses) != 2 || uses[0].runner == uses[1].runner || uses[1].took >= uses[0].took {
			t.Errorf("two waves have used %s so: %v", disk, uses)
		}
	}

	// The runner's object is kept as evidence of the lost job. It has no claim any more.
	s.caused = []state.AnomalyKind{state.RunnerLostBusy, state.RunnerStoppedBusy}
	lost := s.queue(1, longJob)
	s.awaitJobs(lost, state.Running)
	kill(t, s.runnerPods()[0])
	s.awaitJobs(lost, state.Completed)
	s.awaitSuccess(s.queue(1, time.Second))
	s.awaitClaims(2)

	ids, err := s.github.QueueJobs(t.Context(), fakegithub.JobRequest{ScaleSet: s.name, Event: "pull_request"})
	if err != nil {
		t.Fatal(err)
	}
	s.awaitSuccess(ids)
	s.awaitClaims(1)
	for _, disk := range disks {
		for _, use := range usesOf(t, disk)[1:] {
			if use.took >= downloadTime {
				t.Errorf("a runner has found nothing on %s: %v", disk, usesOf(t, disk))
			}
		}
	}
}

// The chart's pod with the values of docs/caches.md for layers is accepted, and the daemon starts with a volume at its
// directory.
func TestDockerKeepsItsLayersOnAClaim(t *testing.T) {
	t.Parallel()
	makeDisks(t, "layers", 1)
	s := prepare(t, serve(t, fakegithub.Options{}), "layers", 0, 1)
	s.values["containerMode"] = site.Values{"type": "dind"}
	s.values["volumeClaimTemplates"] = claimTemplates("docker", "layers")
	s.podSpec()["containers"] = append(s.podSpec()["containers"].([]site.Values),
		site.Values{"name": "dind", "volumeMounts": []site.Values{{"name": "docker", "mountPath": "/var/lib/docker"}}})
	s.useStandIn()
	pods := recordPods(t, s.namespace)
	s.install()
	for range 2 {
		s.awaitSuccess(s.queue(1, time.Second))
		s.awaitNoRunners()
	}
	claims := s.awaitClaims(1)
	s.await(t.Context(), "the end of two pods", func() (string, error) { return pods.untold(2) })
	for _, pod := range pods.all() {
		volume := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claims[0].Name
		})
		dind := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "dind" })
		if volume < 0 || dind < 0 ||
			!slices.ContainsFunc(pod.Spec.InitContainers[dind].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.MountPath == "/var/lib/docker" && m.Name == pod.Spec.Volumes[volume].Name
			}) {
			t.Errorf("pod %s has volumes %v", pod.Name, pod.Spec.Volumes)
		}
		expectSidecarAround(t, &pod)
	}
}

// makeDisks makes directories on this machine, the node, and a local volume of each, for a StorageClass of the given
// name. Both go with the cluster.
func makeDisks(t *testing.T, class string, count int) []string {
	t.Helper()
	var nodes corev1.NodeList
	if err := kube.List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("nodes: %v, %v", nodes.Items, err)
	}
	late := storagev1.VolumeBindingWaitForFirstConsumer
	objects := []client.Object{&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: &late,
	}}
	var disks []string
	for i := range count {
		disk := filepath.Join(t.TempDir(), "disk")
		if err := os.Mkdir(disk, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(disk, 0o777); err != nil { // the runners' user writes to it
			t.Fatal(err)
		}
		disks = append(disks, disk)
		onNode := corev1.NodeSelectorRequirement{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
			Values: []string{nodes.Items[0].Labels[corev1.LabelHostname]},
		}
		objects = append(objects, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: class + "-" + strconv.Itoa(i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				StorageClassName:              class,
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					Local: &corev1.LocalVolumeSource{Path: disk}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{
						{MatchExpressions: []corev1.NodeSelectorRequirement{onNode}}},
				}},
			},
		})
	}
	for _, object := range objects {
		if err := kube.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return disks
}

// claimTemplates is the value volumeClaimTemplates with one volume.
func claimTemplates(name, class string) []site.Values {
	return []site.Values{{
		"metadata": site.Values{"name": name},
		"spec": site.Values{
			"accessModes": []string{"ReadWriteOnce"}, "storageClassName": class,
			"resources": site.Values{"requests": site.Values{"storage": "1Gi"}},
		},
	}}
}

// awaitClaims waits until the set has so many claims, and says so, and none of them is being deleted.
func (s *scaleSet) awaitClaims(count int) []corev1.PersistentVolumeClaim {
	s.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	s.await(s.t.Context(), fmt.Sprintf("%d free claims", count), func() (string, error) {
		if err := kube.List(s.t.Context(), &claims, client.InNamespace(s.namespace)); err != nil {
			return "", err
		}
		set, err := s.object(s.t.Context())
		want := &v1alpha1.VolumeClaimCounts{Total: count, Free: count}
		if set.Status.VolumeClaims != nil {
			want.FullestPercent = set.Status.VolumeClaims.FullestPercent
		}
		deleting := func(c corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil }
		if err != nil || (len(claims.Items) == count && !slices.ContainsFunc(claims.Items, deleting) &&
			set.Status.VolumeClaims != nil && *set.Status.VolumeClaims == *want) {
			return "", err
		}
		return fmt.Sprintf("there are %d, and the status has %+v", len(claims.Items), set.Status.VolumeClaims), nil
	})
	return claims.Items
}

// A runner that finds nothing in its cache takes at least downloadTime (test/runner).
const downloadTime = 2 * time.Second

// use is one runner's use of a disk.
type use struct {
	runner string
	took   time.Duration
}

// usesOf returns the uses of a disk, in order.
func usesOf(t *testing.T, disk string) []use {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(disk, "users"))
	if err != nil {
		t.Fatal(err)
	}
	var uses []use
	for line := range strings.Lines(string(content)) {
		runner, took, _ := strings.Cut(strings.TrimSpace(line), " ")
		milliseconds, err := strconv.Atoi(took)
		if err != nil {
			t.Fatal(err)
		}
		uses = append(uses, use{runner, time.Duration(milliseconds) * time.Millisecond})
	}
	return uses
}
