package autoscalinglistener

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// observe reads the objects of the listener, all of them from the cache. The set is the one that the listener's labels name.
func (c *Controller) observe(ctx context.Context, listener *v1alpha1.AutoscalingListener) (*pass, error) {
	memory, _ := c.memories.Of(listener)
	p := &pass{
		key: client.ObjectKeyFromObject(listener), setKey: kube.LabelledSet(listener), listener: listener, memory: memory, now: c.options.Clock.Now(),
	}
	if why := contradiction(listener); why != "" {
		p.ignored = why // the set may be in a namespace that the cache doesn't have
	} else if err := c.observeSet(ctx, p); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := c.options.Client.List(ctx, &pods, client.InNamespace(listener.Namespace), ofSet(p.setKey)); err != nil {
		return nil, fmt.Errorf("list listener pods: %w", err)
	}
	p.memory.noteDeletions(pods.Items, p.now)
	p.memory.kept.Begin()
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

// contradiction returns why a listener can't be one that the manager wrote, empty if it can.
func contradiction(listener *v1alpha1.AutoscalingListener) string {
	labels := kube.LabelledSet(listener)
	spec := types.NamespacedName{Namespace: listener.Spec.AutoscalingRunnerSetNamespace, Name: listener.Spec.AutoscalingRunnerSetName}
	switch {
	case labels.Name == "" || labels.Namespace == "":
		return "its labels name no scale set"
	case labels != spec:
		return fmt.Sprintf("its labels name scale set %s and its spec %s", labels, spec)
	}
	return ""
}

// observeSet reads the set, and whether the listener is the one that the set has.
func (c *Controller) observeSet(ctx context.Context, p *pass) error {
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := c.options.Client.Get(ctx, p.setKey, set); apierrors.IsNotFound(err) {
		p.ignored = fmt.Sprintf("there is no AutoscalingRunnerSet %s", p.setKey)
		return nil
	} else if err != nil {
		return fmt.Errorf("get AutoscalingRunnerSet %s: %w", p.setKey, err)
	}
	p.set = set
	var listeners v1alpha1.AutoscalingListenerList
	if err := c.options.Client.List(ctx, &listeners, client.InNamespace(p.key.Namespace), ofSet(p.setKey)); err != nil {
		return fmt.Errorf("list AutoscalingListeners: %w", err)
	}
	kube.SortListeners(set, listeners.Items)
	if len(listeners.Items) > 0 && listeners.Items[0].Name != p.key.Name {
		p.ignored = fmt.Sprintf("scale set %s has another listener, %s", p.setKey, listeners.Items[0].Name)
	}
	return nil
}

// ofSet selects the objects that have a set's labels.
func ofSet(set types.NamespacedName) client.MatchingLabels {
	return client.MatchingLabels{v1alpha1.LabelScaleSetName: set.Name, v1alpha1.LabelScaleSetNamespace: set.Namespace}
}

// isListenerPod distinguishes listener pods, even if their AutoscalingListener is gone or a backup has lost it as their owner, from runner
// pods, which are in the same namespace if the scale set is in the manager's.
func isListenerPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return isAbandoned(pod) || owner != nil && owner.Kind == "AutoscalingListener" && owner.APIVersion == v1alpha1.GroupVersion.String()
}
