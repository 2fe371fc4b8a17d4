package autoscalinglistener

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// observe reads the objects of the listener, all of them from the cache. The set is the one that the listener's labels
// name.
func (c *Controller) observe(
	ctx context.Context, pass *reconcile.Pass[*v1alpha1.AutoscalingListener, memory],
) (*world, error) {
	listener := pass.Object
	w := &world{Pass: pass, setKey: kube.LabelledSet(listener)}
	w.objects = ownership.Objects{Client: c.options.Client, Reader: c.options.Reader, Listener: w.Key, Set: w.setKey}
	w.ignored = contradiction(listener)
	if w.ignored == "" { // else the set may be in a namespace that the cache doesn't have
		if err := c.observeSet(ctx, w); err != nil {
			return nil, err
		}
	}
	var pods corev1.PodList
	if err := c.options.Client.List(ctx, &pods, client.InNamespace(listener.Namespace), ofSet(w.setKey)); err != nil {
		return nil, fmt.Errorf("list listener pods: %w", err)
	}
	w.Memory.kept.Begin()
	seenBefore := w.Memory.deletingSince
	w.Memory.deletingSince = map[types.UID]time.Time{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil {
			w.Memory.deletingSince[pod.UID] = cmp.Or(seenBefore[pod.UID], w.Now)
		}
		switch {
		case metav1.IsControlledBy(pod, listener) && pod.Name == listener.Name:
			w.pod = pod
		case isListenerPod(pod):
			w.strays = append(w.strays, pod)
		}
	}
	return w, nil
}

// contradiction returns the reason why a listener can't be one that the manager wrote, empty if it can.
func contradiction(listener *v1alpha1.AutoscalingListener) string {
	labels := kube.LabelledSet(listener)
	spec := types.NamespacedName{
		Namespace: listener.Spec.AutoscalingRunnerSetNamespace,
		Name:      listener.Spec.AutoscalingRunnerSetName,
	}
	switch {
	case labels.Name == "" || labels.Namespace == "":
		return "its labels name no scale set"
	case labels != spec:
		return fmt.Sprintf("its labels name scale set %s and its spec %s", labels, spec)
	}
	return ""
}

// observeSet reads the set, and whether the listener is the one that the set has.
func (c *Controller) observeSet(ctx context.Context, w *world) error {
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := c.options.Client.Get(ctx, w.setKey, set); apierrors.IsNotFound(err) {
		w.ignored = fmt.Sprintf("there is no AutoscalingRunnerSet %s", w.setKey)
		return nil
	} else if err != nil {
		return fmt.Errorf("get AutoscalingRunnerSet %s: %w", w.setKey, err)
	}
	w.set = set
	var listeners v1alpha1.AutoscalingListenerList
	if err := c.options.Client.List(ctx, &listeners, client.InNamespace(w.Key.Namespace), ofSet(w.setKey)); err != nil {
		return fmt.Errorf("list AutoscalingListeners: %w", err)
	}
	kube.SortListeners(set, listeners.Items)
	if len(listeners.Items) > 0 && listeners.Items[0].Name != w.Key.Name {
		w.ignored = fmt.Sprintf("scale set %s has another listener, %s", w.setKey, listeners.Items[0].Name)
	}
	return nil
}

// isListenerPod distinguishes listener pods from runner pods, which are in the same namespace if the scale set is in
// the manager's. It does so even if the listener pod's AutoscalingListener is gone, or was lost as its owner in a
// backup.
func isListenerPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return ownership.IsAbandoned(pod) ||
		(owner != nil && owner.Kind == "AutoscalingListener" && owner.APIVersion == v1alpha1.GroupVersion.String())
}
