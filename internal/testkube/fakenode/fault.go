package fakenode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Fault has what goes wrong before a pod's first container starts. The zero value is no fault.
type Fault struct {
	// Delay is added to the start latency.
	Delay time.Duration
	// NeverStart leaves the pod bound and its containers in ContainerCreating.
	NeverStart bool
	// Unschedulable leaves the pod unbound, with this message from the scheduler.
	Unschedulable string
	// ImagePull leaves the containers in ErrImagePull, then ImagePullBackOff.
	ImagePull bool
	// Reject makes the node refuse to admit the pod, which then fails with this reason, such as OutOfcpu or
	// NodeAffinity.
	Reject string
}

// OnStart installs the function that decides with which fault a pod starts; nil means none. It applies to pods that the
// node sees for the first time afterwards.
func (n *Node) OnStart(decide func(*corev1.Pod) Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onStart = decide
}

func (n *Node) faultFor(pod *corev1.Pod) Fault {
	n.mu.Lock()
	decide := n.onStart
	n.mu.Unlock()
	if decide == nil {
		return Fault{}
	}
	return decide(pod)
}

// Evict ends the pod as a node under pressure does: containers killed, phase Failed, reason Evicted. It fails if the
// pod is not on this node.
func (n *Node) Evict(pod types.NamespacedName, message string) error {
	p, err := n.player(pod)
	if err != nil {
		return err
	}
	p.fail(outcome{reason: "Evicted", message: message, disruption: true})
	return nil
}

// OOMKill kills a running container as if it had run out of memory. It fails if the container does not run on this
// node.
func (n *Node) OOMKill(pod types.NamespacedName, container string) error {
	return n.killContainer(pod, container, "OOMKilled")
}

// Kill ends a running container with SIGKILL, like a crash. It fails if the container does not run on this node.
func (n *Node) Kill(pod types.NamespacedName, container string) error {
	return n.killContainer(pod, container, "Error")
}

func (n *Node) killContainer(pod types.NamespacedName, container, reason string) error {
	p, err := n.player(pod)
	if err != nil {
		return err
	}
	for _, run := range p.running() {
		if run.Spec.Name == container {
			run.kill(reason)
			return nil
		}
	}
	return notRunningError{pod: pod, container: container}
}

// notRunningError says that there is nothing to kill.
type notRunningError struct {
	pod       types.NamespacedName
	container string
}

func (e notRunningError) Error() string {
	return "container " + e.container + " of pod " + e.pod.String() + " doesn't run"
}
