package autoscalinglistener

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// observe reads the objects of the listener, all of them from the cache.
func (c *Controller) observe(ctx context.Context, listener *v1alpha1.AutoscalingListener) (*pass, error) {
	own := client.ObjectKeyFromObject(listener)
	memory, _ := c.memories.Of(listener)
	p := &pass{key: own, listener: listener, memory: memory, now: c.options.Clock.Now()}
	set := &v1alpha1.AutoscalingRunnerSet{}
	key := client.ObjectKey{Namespace: listener.Spec.AutoscalingRunnerSetNamespace, Name: listener.Spec.AutoscalingRunnerSetName}
	switch err := c.options.Client.Get(ctx, key, set); {
	case err == nil:
		p.set = set
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get AutoscalingRunnerSet %s: %w", key, err)
	}
	var pods corev1.PodList
	err := c.options.Client.List(ctx, &pods, client.InNamespace(listener.Namespace), client.MatchingLabels{
		v1alpha1.LabelScaleSetName: key.Name, v1alpha1.LabelScaleSetNamespace: key.Namespace,
	})
	if err != nil {
		return nil, fmt.Errorf("list listener pods: %w", err)
	}
	p.memory.noteDeletions(pods.Items, p.now)
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case metav1.IsControlledBy(pod, listener) && pod.Name == listener.Name:
			p.pod = pod
		case isListenerPod(pod):
			p.strays = append(p.strays, pod)
		}
	}
	return p, nil
}

// isListenerPod distinguishes listener pods, even if their AutoscalingListener is gone, from runner pods, which are in the same
// namespace if the scale set is in the manager's.
func isListenerPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "AutoscalingListener"
}
