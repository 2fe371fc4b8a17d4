package fakestorage_test

import (
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/internal/testkube/fakestorage"
)

// patience bounds the wait for a state on a busy machine.
const patience = "1m"

func TestMain(m *testing.M) {
	os.Exit(testkube.Main(m, testkube.Options{CRDs: []string{}, ControllerManager: true}))
}

// stage is a namespace with a node and a storage for what is in it.
type stage struct {
	*WithT
	t         *testing.T
	client    client.Client
	node      *fakenode.Node
	storage   *fakestorage.Storage
	namespace string
}

func newStage(t *testing.T, options fakestorage.Options) *stage {
	t.Helper()
	cluster := testkube.Shared(t)
	s := &stage{WithT: NewWithT(t), t: t, client: cluster.Client(), namespace: cluster.NewNamespace(t)}
	options.Accepts = func(claim *corev1.PersistentVolumeClaim) bool { return claim.Namespace == s.namespace }
	s.storage = fakestorage.Start(t, cluster.Config(), options)
	s.node = fakenode.Start(t, cluster.Config(), fakenode.Options{Namespace: s.namespace, Claims: s.storage})
	return s
}

func (s *stage) create(object client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) claim(name string) *corev1.PersistentVolumeClaim {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	s.create(claim)
	return claim
}

// pod creates a pod that runs until it is deleted, and mounts a claim.
func (s *stage) pod(name, claim string) *corev1.Pod {
	s.t.Helper()
	source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "runner", Image: "runner"}},
			Volumes:       []corev1.Volume{{Name: "cache", VolumeSource: source}},
		},
	}
	s.create(pod)
	return pod
}

// awaits waits until so holds for the object, and leaves what it then is in it.
func (s *stage) awaits(object client.Object, what string, so func() bool) {
	s.t.Helper()
	s.Eventually(func() (bool, error) {
		err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)
		return err == nil && so(), err
	}, patience, "20ms").Should(BeTrue(), what)
}

func (s *stage) awaitsRunning(pods ...*corev1.Pod) {
	s.t.Helper()
	for _, pod := range pods {
		s.awaits(pod, pod.Name+" runs", func() bool { return pod.Status.Phase == corev1.PodRunning })
	}
}

func (s *stage) awaitsBound(claim *corev1.PersistentVolumeClaim) {
	s.t.Helper()
	s.awaits(claim, claim.Name+" is bound",
		func() bool { return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != "" })
}

// awaitsUnplaced waits until the pod's condition says with this text why it has no node.
func (s *stage) awaitsUnplaced(pod *corev1.Pod, why string) {
	s.t.Helper()
	s.awaits(pod, pod.Name+" waits: "+why, func() bool {
		c := condition(pod, corev1.PodScheduled)
		return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable &&
			strings.Contains(c.Message, why)
	})
}

func (s *stage) delete(object client.Object) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) awaitsGone(object client.Object) {
	s.t.Helper()
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
	}, patience, "20ms").Should(BeTrue(), "%s is gone", object.GetName())
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestAClaimIsBoundWithItsFirstPod(t *testing.T) {
	s := newStage(t, fakestorage.Options{})
	used, unused := s.claim("used"), s.claim("unused")
	s.awaitsRunning(s.pod("first", "used"))
	s.awaitsBound(used)
	s.awaits(unused, "as it was", func() bool { return unused.Status.Phase == corev1.ClaimPending })
	if zone := s.storage.ZoneOf(used); zone == "" {
		t.Error("the bound claim has no zone")
	}
}

func TestAClaimIsBoundAtOnce(t *testing.T) {
	s := newStage(t, fakestorage.Options{Immediate: true, Latency: time.Millisecond})
	s.awaitsBound(s.claim("unused"))
}

func TestAPodWaitsForTheZoneOfItsClaim(t *testing.T) {
	s := newStage(t, fakestorage.Options{Zones: []string{"a", "b"}})
	near := s.claim("near")
	first := s.pod("first", "near")
	s.awaitsRunning(first)
	s.delete(first)
	s.awaitsGone(first)
	s.storage.FillZone("a", true)
	s.claim("far")
	second, elsewhere := s.pod("second", "near"), s.pod("elsewhere", "far")
	s.awaitsRunning(elsewhere)
	s.awaitsUnplaced(second, "volume node affinity conflict")
	if zone := s.storage.ZoneOf(near); zone != "a" {
		t.Errorf("the first claim is in zone %q", zone)
	}
	s.storage.FillZone("a", false)
	s.awaitsRunning(second)
}

func TestAPodWaitsForItsMount(t *testing.T) {
	s := newStage(t, fakestorage.Options{})
	s.storage.RefuseMounts(func(*corev1.Pod, *corev1.PersistentVolumeClaim) string { return "no such device" })
	s.claim("broken")
	pod := s.pod("first", "broken")
	s.awaits(pod, "it is being created", func() bool {
		return pod.Spec.NodeName != "" && len(pod.Status.ContainerStatuses) == 1 &&
			pod.Status.ContainerStatuses[0].State.Waiting != nil &&
			condition(pod, corev1.PodReadyToStartContainers).Status == corev1.ConditionFalse
	})
	s.Eventually(func() (messages []string) {
		var events corev1.EventList
		s.Expect(s.client.List(t.Context(), &events, client.InNamespace(s.namespace))).To(Succeed())
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "FailedMount" && e.InvolvedObject.UID == pod.UID {
				messages = append(messages, e.Message)
			}
		}
		return messages
	}, patience, "20ms").Should(ConsistOf(ContainSubstring("no such device")))
	s.storage.RefuseMounts(nil)
	s.awaitsRunning(pod)
	if c := condition(pod, corev1.PodReadyToStartContainers); c.Status != corev1.ConditionTrue {
		t.Errorf("its volumes are mounted, and the condition is %v", c)
	}
}

func TestTwoPodsOfOneClaimAreNoticed(t *testing.T) {
	s := newStage(t, fakestorage.Options{})
	s.claim("shared")
	first := s.pod("first", "shared")
	s.awaitsRunning(first)
	s.delete(first)
	s.awaitsGone(first)
	s.awaitsRunning(s.pod("second", "shared"))
	if found := s.storage.Violations(); len(found) > 0 {
		t.Errorf("one after the other: %v", found)
	}
	s.awaitsRunning(s.pod("third", "shared"))
	s.Expect(s.storage.Violations()).To(ConsistOf("claim shared is mounted by pod second and by pod third"))
}

// The finalizer and what removes it are Kubernetes' own.
func TestAClaimThatIsDeletedStaysWhileAPodHasIt(t *testing.T) {
	s := newStage(t, fakestorage.Options{})
	claim := s.claim("kept")
	first := s.pod("first", "kept")
	s.awaitsRunning(first)
	s.delete(claim)
	second := s.pod("second", "kept")
	s.awaitsUnplaced(second, "is being deleted")
	s.awaits(claim, "it is kept", func() bool { return claim.DeletionTimestamp != nil })
	s.delete(first)
	s.awaitsGone(claim)
	s.awaitsUnplaced(second, "not found")
}

func TestACopyWaitsForWhatItCopies(t *testing.T) {
	s := newStage(t, fakestorage.Options{})
	source := s.claim("source")
	copied := source.DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: "copy"}
	copied.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "source"}
	s.create(copied)
	pod := s.pod("second", "copy")
	s.awaitsUnplaced(pod, "claim source can't be copied")
	s.awaitsRunning(s.pod("first", "source"))
	s.awaitsRunning(pod)
	s.awaitsBound(copied)
}

func TestAVolumeThatCantBeMade(t *testing.T) {
	s := newStage(t, fakestorage.Options{})
	s.storage.RefuseVolumes(func(*corev1.PersistentVolumeClaim) string {
		return `storageclass.storage.k8s.io "fast" not found`
	})
	s.claim("unmade")
	pod := s.pod("first", "unmade")
	s.awaitsUnplaced(pod, `"fast" not found`)
	s.storage.RefuseVolumes(nil)
	s.awaitsRunning(pod)
}
