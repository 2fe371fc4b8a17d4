package fakenode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Loss is the way in which a node is lost.
type Loss int

const (
	// PowerOff kills all containers, and nothing is reported.
	PowerOff Loss = iota
	// Partition leaves the containers running. They can still reach whatever they talk to.
	Partition
	// Silence leaves them running as well, and nobody has noticed the loss yet: Ready stays True, and what happens to
	// the containers is reported late.
	Silence
)

// Lose makes the pods that match look like those of a node that went NotReady: the node lifecycle controller has set
// Ready to False (except with Silence), ContainersReady stays as it was, nothing is reported any more, and a deleted
// pod stays Terminating until it is deleted with grace period 0. It fails if Ready can't be written.
func (n *Node) Lose(ctx context.Context, match func(*corev1.Pod) bool, loss Loss) error {
	var failures []error
	for _, p := range n.matching(match) {
		p.freeze()
		if loss == PowerOff {
			for _, run := range p.running() {
				run.kill("Error")
			}
		}
		if loss != Silence {
			failures = append(failures, p.markNotReady(ctx))
		}
	}
	return errors.Join(failures...)
}

// Restore brings back the node of the pods that match: it reports what has become of them, restarts containers as the
// restart policy says, and completes requested deletions.
func (n *Node) Restore(match func(*corev1.Pod) bool) {
	for _, p := range n.matching(match) {
		p.thaw()
	}
}

// freeze stops all writes. When it returns, no request is in flight.
func (p *player) freeze() {
	p.mu.Lock()
	select {
	case <-p.thawed:
		p.thawed = make(chan struct{})
	default:
	}
	p.mu.Unlock()
	// Whoever holds the lock is making a request; whoever gets it next sees the loss.
	p.writing.Lock()
	defer p.writing.Unlock()
}

// thaw allows writes again. It does nothing to a pod that was not lost.
func (p *player) thaw() {
	if !p.lost() {
		return
	}
	p.mu.Lock()
	close(p.thawed)
	p.mu.Unlock()
	p.publishing.Lock()
	// Others have written conditions meanwhile, so the status is written again.
	p.lastStatus = nil
	p.publishing.Unlock()
	signal(p.changed)
}

func (p *player) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
		return false
	default:
		return true
	}
}

// markNotReady does what the node lifecycle controller does to the pods of a node it has lost.
func (p *player) markNotReady(ctx context.Context) error {
	condition := corev1.PodCondition{
		Type:               corev1.PodReady,
		Status:             corev1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(p.node.options.Clock.Now()),
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	if err != nil {
		return fmt.Errorf("encode the condition of pod %s: %w", p.key(), err)
	}
	_, err = p.node.clientset.CoreV1().Pods(p.pod.Namespace).
		Patch(ctx, p.pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark pod %s not ready: %w", p.key(), err)
	}
	return nil
}
