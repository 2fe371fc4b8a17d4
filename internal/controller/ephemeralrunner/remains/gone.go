package remains

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// gone remembers, by runner, the objects that the watches have shown to be gone, until the next pass: the cache no
// longer has them, and several events may lead to one pass. Safe for concurrent use; the zero value is empty.
type gone struct {
	mu sync.Mutex
	// pods are the last states of runners' pods.
	pods map[types.NamespacedName]*corev1.Pod
	// runners went without having been deleted first, and so without their finalization.
	runners sets.Set[types.NamespacedName]
}

// KeepPod keeps the last state of a runner's pod.
func (g *gone) KeepPod(runner types.NamespacedName, pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pods == nil {
		g.pods = map[types.NamespacedName]*corev1.Pod{}
	}
	g.pods[runner] = pod
}

// LastPod returns the last state that was kept of a runner's pod, nil if none was.
func (g *gone) LastPod(runner types.NamespacedName) *corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pods[runner]
}

// ForgetPod forgets a state that LastPod returned, unless another state was kept since, or the pod was there when a
// pass read it: then the state is for the next pass. Both may be nil.
func (g *gone) ForgetPod(runner types.NamespacedName, last, read *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := last != nil && read != nil && last.UID == read.UID
	if g.pods[runner] == last && !before {
		delete(g.pods, runner)
	}
}

// RememberVanished remembers that a runner is gone without having been deleted first.
func (g *gone) RememberVanished(runner types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runners == nil {
		g.runners = sets.New[types.NamespacedName]()
	}
	g.runners.Insert(runner)
}
