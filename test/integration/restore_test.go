package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// mostRestored is the scale set's maxRunners. Two of its runners are idle and one has a job.
const mostRestored = 4

// backup has the objects that a backup tool has saved of a working scale set.
type backup struct {
	*rig.Rig
	*gomega.WithT
	t      *testing.T
	random *rand.Rand
	set    v1alpha1.EphemeralRunnerSet
	runner v1alpha1.EphemeralRunner
	pod    corev1.Pod
	secret corev1.Secret
	// made counts the restored objects, whose names it makes unique.
	made int
	// noSecrets is set if runners are restored without theirs.
	noSecrets bool
}

// A backup tool, or somebody with kubectl, brings back runners, runner sets, pods and Secrets, in any state and with
// any owner. There are never more pods of runners than maxRunners allows, running jobs and registrations stay, and
// objects that nobody owns go.
func TestRestoredObjectsAreNobodysRunners(t *testing.T) {
	const seeds, objects = 4, 12
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		MinRunners: 2, MaxRunners: mostRestored, GitHub: fakegithub.Options{PollLength: 2 * time.Second},
	})
	awaitIdle(t, r, 2)
	b := &backup{Rig: r, WithT: gomega.NewWithT(t), t: t}
	held := r.QueueJobs(1, rig.Held)
	b.Eventually(func() int { _, busy := online(r); return busy }, rig.Patience).Should(gomega.Equal(1))
	b.save()
	exceeded := b.watchPods()
	for seed := range uint64(seeds) {
		b.random = rand.New(rand.NewPCG(seed, 30))
		for range objects {
			b.restore()
		}
		b.Eventually(b.ownerless, rig.Patience, 200*time.Millisecond).WithContext(t.Context()).
			Should(gomega.BeEmpty(), "seed %d: left that nobody owns", seed)
	}
	r.EndJobs(append(held, r.QueueJobs(6, time.Second)...))
	r.AwaitQuiet()
	for _, violation := range exceeded() {
		t.Error(violation)
	}
}

// A scale set that is uninstalled leaves nothing, even if a backup has brought its objects back beside it.
func TestNothingRestoredOutlivesItsScaleSet(t *testing.T) {
	r := rig.Start(t, testkube.Borrow(t), rig.Options{MinRunners: 1, MaxRunners: mostRestored})
	awaitIdle(t, r, 1)
	b := &backup{Rig: r, WithT: gomega.NewWithT(t), t: t, random: rand.New(rand.NewPCG(1, 30))}
	b.save()
	for range 10 {
		b.restore()
	}
	b.Eventually(b.ownerless, rig.Patience, 200*time.Millisecond).WithContext(t.Context()).Should(gomega.BeEmpty())
	r.UninstallSet(rig.DefaultSet)
	b.noSecrets = true // the manager has lost the right to delete them
	for range 5 {
		b.restoreRunner(nil)
	}
	r.AwaitUninstalled()
	b.Eventually(b.ownerless, rig.Patience, 200*time.Millisecond).WithContext(t.Context()).Should(gomega.BeEmpty())
}

// save reads one of each kind.
func (b *backup) save() {
	b.t.Helper()
	var runners v1alpha1.EphemeralRunnerList
	var sets v1alpha1.EphemeralRunnerSetList
	for _, list := range []client.ObjectList{&runners, &sets} {
		b.Expect(b.Cluster.Client().List(b.t.Context(), list, client.InNamespace(b.RunnerNamespace))).To(gomega.Succeed())
	}
	b.set, b.runner = sets.Items[0], runners.Items[0]
	for _, object := range []client.Object{&b.pod, &b.secret} {
		b.Expect(b.Cluster.Client().Get(b.t.Context(), client.ObjectKeyFromObject(&b.runner), object)).To(gomega.Succeed())
	}
}

// restore brings one object back, or one with its parts.
func (b *backup) restore() {
	b.t.Helper()
	switch b.random.IntN(5) {
	case 0:
		b.restorePod()
	case 1:
		set := b.set.DeepCopy()
		b.strip(set)
		set.Spec.Replicas = 3
		b.create(set)
		b.restoreRunner([]metav1.OwnerReference{ownedBy("EphemeralRunnerSet", set.Name, set.UID)})
	default:
		b.restoreRunner([][]metav1.OwnerReference{
			nil,
			{ownedBy("EphemeralRunnerSet", b.set.Name, b.set.UID)}, // made by hand
			{ownedBy("EphemeralRunnerSet", b.set.Name, "of-another-cluster")},
			{ownedBy("EphemeralRunnerSet", "gone", "of-another-time")},
		}[b.random.IntN(4)])
	}
}

// restoreRunner brings a runner back under a new name, with its Secret, with or without its status, labels and
// finalizer. A runner of the set itself has no status: nothing restores that to a living owner.
func (b *backup) restoreRunner(owners []metav1.OwnerReference) {
	b.t.Helper()
	runner := b.runner.DeepCopy()
	b.strip(runner)
	runner.OwnerReferences, runner.Status = owners, v1alpha1.EphemeralRunnerStatus{}
	own := len(owners) > 0 && owners[0].UID == b.set.UID
	if !own && b.random.IntN(4) == 0 {
		runner.Labels = nil
	}
	if b.random.IntN(2) == 0 {
		runner.Finalizers = nil
	}
	if !own && !b.noSecrets && b.random.IntN(2) == 0 {
		b.restoreSecret(runner.Name) // first, as tools do: the runner is gone in a moment
	}
	b.create(runner)
	if !own && b.random.IntN(2) == 0 {
		runner.Status = b.runner.Status
		_ = b.Cluster.Client().Status().Update(b.t.Context(), runner) // it may be gone by now
	}
}

// restorePod brings the pod of a runner back, with its Secret.
func (b *backup) restorePod() {
	b.t.Helper()
	pod := b.pod.DeepCopy()
	b.strip(pod)
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
	for i := range pod.Spec.Containers[0].Env {
		if from := pod.Spec.Containers[0].Env[i].ValueFrom; from != nil && from.SecretKeyRef != nil {
			from.SecretKeyRef.Name = pod.Name
		}
	}
	b.restoreSecret(pod.Name)
	b.create(pod)
}

// restoreSecret brings the Secret of a runner back. Its registration is used up.
func (b *backup) restoreSecret(name string) {
	b.t.Helper()
	secret := b.secret.DeepCopy()
	b.strip(secret)
	secret.Name = name
	secret.Data["runnerName"], secret.Data["jitToken"] = []byte(name), []byte("used up")
	b.create(secret)
}

// strip removes the fields that a backup tool doesn't restore, and gives the object a new name.
func (b *backup) strip(object client.Object) {
	b.made++
	object.SetName(fmt.Sprintf("%s-runner-r%04d", b.set.Name, b.made))
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetCreationTimestamp(metav1.Time{})
	object.SetOwnerReferences(nil)
	object.SetManagedFields(nil)
}

func (b *backup) create(object client.Object) {
	b.t.Helper()
	b.Expect(b.Cluster.Client().Create(b.t.Context(), object)).To(gomega.Succeed())
}

func ownedBy(kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       kind,
		Name:       name,
		UID:        uid,
		Controller: new(true),
	}
}

// ownerless lists the objects that are not the scale set's own.
func (b *backup) ownerless(ctx context.Context) ([]string, error) {
	var left []string
	lists := []client.ObjectList{&v1alpha1.EphemeralRunnerSetList{}, &v1alpha1.EphemeralRunnerList{}, &corev1.PodList{},
		&corev1.SecretList{}}
	owners := map[types.UID]bool{}
	var origins v1alpha1.AutoscalingRunnerSetList
	if err := b.Cluster.Client().List(ctx, &origins, client.InNamespace(b.RunnerNamespace)); err != nil {
		return nil, err
	}
	for i := range origins.Items {
		owners[origins.Items[i].UID] = true
	}
	for _, list := range lists {
		if err := b.Cluster.Client().List(ctx, list, client.InNamespace(b.RunnerNamespace)); err != nil {
			return nil, err
		}
		for _, object := range controllertest.Items(b.t, list) {
			owner := metav1.GetControllerOf(object)
			_, secret := object.(*corev1.Secret)
			switch {
			case owner != nil && owners[owner.UID]:
				owners[object.GetUID()] = true
			case secret && !strings.HasPrefix(object.GetName(), b.set.Name+"-runner-"): // the chart's
			default:
				left = append(left, fmt.Sprintf("%T %s", object, object.GetName()))
			}
		}
	}
	return left, nil
}

// watchPods watches the pods that the manager creates. The returned function ends that, and lists the moments with too
// many pods.
func (b *backup) watchPods() (end func() []string) {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	watch, err := b.Cluster.Client().Watch(ctx, &corev1.PodList{}, client.InNamespace(b.RunnerNamespace))
	b.Expect(err).NotTo(gomega.HaveOccurred())
	var exceeded []string
	var watching sync.WaitGroup
	watching.Go(func() {
		alive := map[types.UID]bool{}
		for event := range watch.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || metav1.GetControllerOf(pod) == nil {
				continue
			}
			alive[pod.UID] = true
			if ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; ended ||
				event.Type == "DELETED" {
				delete(alive, pod.UID)
			}
			if len(alive) > mostRestored {
				exceeded = append(exceeded, fmt.Sprintf("%d pods with %s, maxRunners is %d", len(alive), pod.Name, mostRestored))
			}
		}
	})
	return func() []string {
		stop()
		watch.Stop()
		watching.Wait()
		return exceeded
	}
}
