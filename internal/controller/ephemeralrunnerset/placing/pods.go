package placing

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/internal/capacity/placement"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// Pods holds which runners' pods have a node, and which wait for one. The watch's handler keeps it up to date, at a
// cost that depends on neither the set nor the namespace.
type Pods struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]runnerPod
}

// runnerPod is the pod of a runner that has not ended.
type runnerPod struct {
	runner types.UID
	placement.Pod
}

// NewPods returns Pods that hold nothing yet.
func NewPods() *Pods { return &Pods{pods: map[types.NamespacedName]runnerPod{}} }

// Events returns the handler for the watch of pods. changed is called with each runner whose pod has come, got a node
// or gone.
func (p *Pods) Events(changed func(q reconcile.Queue, runner types.NamespacedName)) handler.EventHandler {
	return reconcile.Seen(func(q reconcile.Queue, object client.Object, gone bool) {
		pod, ok := object.(*corev1.Pod)
		if ok && p.put(pod, gone) {
			changed(q, client.ObjectKeyFromObject(pod))
		}
	})
}

// put stores a pod as it is now, gone if it is no more, and reports whether that is news. A pod that is being deleted
// waits for no node any more, whoever keeps it; if it has one, it takes its room until it has ended.
func (p *Pods) put(pod *corev1.Pod, gone bool) (news bool) {
	key, now := client.ObjectKeyFromObject(pod), runnerPod{}
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case gone || owner == nil || owner.Kind != "EphemeralRunner" || podstatus.IsFinished(pod):
	case pod.Spec.NodeName != "":
		now = runnerPod{owner.UID, placement.Pod{
			CreatedAt: pod.CreationTimestamp.Time,
			PlacedAt:  podstatus.StartableSince(pod),
		}}
	case pod.DeletionTimestamp == nil:
		now = runnerPod{owner.UID, placement.Pod{CreatedAt: pod.CreationTimestamp.Time}}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.pods[key]; before == now {
		return false
	}
	if now.runner == "" {
		delete(p.pods, key)
	} else {
		p.pods[key] = now
	}
	return true
}

// of returns the pods of the runners that have not ended.
func (p *Pods) of(namespace string, runners []*roster.Runner) map[types.UID]placement.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make(map[types.UID]placement.Pod, len(runners))
	for _, r := range runners {
		pod, known := p.pods[types.NamespacedName{Namespace: namespace, Name: r.Name}]
		if known && pod.runner == r.UID && r.Alive() {
			found[r.UID] = pod.Pod
		}
	}
	return found
}
