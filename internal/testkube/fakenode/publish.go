package fakenode

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pauses between attempts at a request while the API server is away.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
)

// schedule binds the pod to the node, as the scheduler would. It returns false if the pod can't be placed.
func (p *player) schedule(fault Fault) bool {
	if p.bind {
		if fault.Unschedulable != "" {
			p.update(func() { p.view.unplaced = fault.Unschedulable })
			return false
		}
		pending := func(message string) { p.update(func() { p.view.unplaced = message }) }
		if claims := p.node.options.Claims; claims != nil && claims.Place(p.wanted, p.pod, pending) != nil {
			return false
		}
		if !p.write(p.bindToNode) {
			// Gone, or bound to another node: no longer this node's business.
			p.gone()
			return false
		}
	}
	p.mu.Lock()
	p.view.scheduled = true
	p.mu.Unlock()
	return true
}

// bindToNode makes one attempt. A conflict may be with an earlier attempt of ours that succeeded, but whose answer was
// lost when the API server ended.
func (p *player) bindToNode(ctx context.Context) error {
	pods := p.node.clientset.CoreV1().Pods(p.pod.Namespace)
	conflict := pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: p.node.options.Name},
	}, metav1.CreateOptions{})
	if !apierrors.IsConflict(conflict) {
		return conflict
	}
	bound, err := pods.Get(ctx, p.pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if bound.UID == p.pod.UID && bound.Spec.NodeName == p.node.options.Name {
		return nil
	}
	return conflict
}

// publish writes the status whenever it has changed. Changes that come during a request are written together by the
// next one.
func (p *player) publish() {
	for {
		select {
		case <-p.changed:
			p.publishNow()
		case <-p.present.Done():
			return
		}
	}
}

// publishNow returns when the API server has the current status, or the pod is gone.
func (p *player) publishNow() {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.awaitThaw()
	status := p.status()
	if p.lastStatus != nil && equality.Semantic.DeepEqual(*p.lastStatus, status) {
		return
	}
	// The UID keeps the patch from being applied to a later pod of the same name.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.pod.UID}, "status": status})
	if err != nil {
		return
	}
	if p.write(func(ctx context.Context) error {
		_, err := p.node.clientset.CoreV1().Pods(p.pod.Namespace).
			Patch(ctx, p.pod.Name, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{}, "status")
		return err
	}) {
		p.lastStatus = &status
	}
}

// status composes the current status. It remembers the conditions, so that the next status keeps their transition
// times.
func (p *player) status() corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view
	v.stopped = p.killed || p.wanted.Err() != nil
	v.now = metav1.NewTime(p.node.options.Clock.Now())
	v.containers = make(map[string]corev1.ContainerStatus, len(p.containers))
	for name, status := range p.containers {
		v.containers[name] = *status.DeepCopy()
	}
	status := v.status()
	p.view.previous = status.Conditions
	return status
}

// The API server has removalTimeout to remove a pod by itself. It needs milliseconds, in a burst on a slow machine a
// second.
const removalTimeout = 5 * time.Second

// remove reports the end of the containers and deletes the object, as a kubelet does in the end. With a grace period of
// zero the API server does not wait for the node: it removes the object by itself, in a second write. If the request
// ends before that, because its sender or the API server is killed, the object stays until the node deletes it.
func (p *player) remove() {
	p.mu.Lock()
	grace := p.grace
	p.mu.Unlock()
	if p.present.Err() != nil || (grace == 0 && !p.pause(p.present, removalTimeout)) {
		return
	}
	p.publishNow()
	zero := int64(0) // seconds of grace: the object goes immediately, unless finalizers hold it
	options := metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.pod.UID}}
	p.write(func(ctx context.Context) error {
		return p.node.clientset.CoreV1().Pods(p.pod.Namespace).Delete(ctx, p.pod.Name, options)
	})
}

// write makes a request, repeats it while the API server is away or overloaded, and reports whether it succeeded.
func (p *player) write(request func(context.Context) error) bool {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		p.awaitThaw()
		err := p.attempt(request)
		if err == nil {
			return true
		}
		if refused(err) || !p.pause(p.present, retry) {
			return false
		}
	}
}

var errLost = errors.New("the node is lost")

// attempt makes the request unless the node was lost meanwhile.
func (p *player) attempt(request func(context.Context) error) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.lost() {
		return errLost
	}
	return p.node.bounded(p.present, request)
}

// refused reports whether repeating the request is useless: the pod is gone, replaced or bound elsewhere, or the
// request is invalid or forbidden.
func refused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) ||
		apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// bounded makes one request as soon as fewer than Options.Writes are in flight.
func (n *Node) bounded(ctx context.Context, request func(context.Context) error) error {
	select {
	case n.writes <- struct{}{}:
		defer func() { <-n.writes }()
		return request(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removeDirectory removes the volumes. A failure does not matter: the node's directory is removed as well.
func (p *player) removeDirectory() { _ = os.RemoveAll(p.directory) }
