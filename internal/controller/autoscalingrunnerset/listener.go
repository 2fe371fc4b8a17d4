package autoscalingrunnerset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// takenRetry is after what time names are tried again that other listeners have.
const takenRetry = time.Minute

// applyListener keeps one AutoscalingListener as the spec wants it. It is found by its labels and changed in place: ARC derives the
// name from group and address, and a second listener would compete for the only session. Only a new one gets a name of ours.
func (c *Controller) applyListener(ctx context.Context, p *pass) error {
	if !p.registeredHere() || !p.hasRunnerSet() {
		return nil
	}
	if err := c.dropExtra(ctx, p); err != nil {
		return err
	}
	wanted, live := c.listener(p, p.runnerSet().Name), p.listener()
	if live == nil && p.unconfirmed {
		return nil // it might take the session of another set's listener
	}
	if live == nil {
		return c.createListener(ctx, p, wanted)
	}
	wanted.Name = live.Name
	if live.DeletionTimestamp != nil {
		return nil // the event that it is gone brings the pass that creates a new one
	}
	applied, err := kube.Apply(ctx, c.options.Client, wanted, live)
	if err != nil || applied {
		return err
	}
	pruned := live.DeepCopy()
	pruned.Spec = wanted.Spec
	if err := c.prune(ctx, pruned, live); err != nil {
		return err
	}
	return kube.DropInherited(ctx, c.options.Client, pruned, wanted, kube.OfInstaller)
}

// createListener creates the listener under the first name that no other object has. An object that has the name is not touched,
// whosever it is.
func (c *Controller) createListener(ctx context.Context, p *pass, wanted *v1alpha1.AutoscalingListener) error {
	names := kube.ListenerNames(p.set)
	for _, name := range names {
		bare := wanted.DeepCopy()
		wanted.Name, bare.Name = name, name
		bare.Labels, bare.Annotations = kube.ScaleSetLabels(p.set, v1alpha1.ComponentListener), nil
		err := kube.Create(ctx, c.options.Client, bare, wanted)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if others, unread := c.isTaken(ctx, p, name); unread != nil || !others {
			return errors.Join(unread, err) // if the listener is the set's, the cache is behind
		}
	}
	p.takenNames = names
	p.requeue.After(takenRetry)
	return nil
}

// isTaken reports whether another listener than the set's has a name. It asks the API server, because the cache of a manager that is
// restricted to a namespace doesn't have the listeners of other managers. It lists, because the manager may not get a listener.
func (c *Controller) isTaken(ctx context.Context, p *pass, name string) (bool, error) {
	var found v1alpha1.AutoscalingListenerList
	err := c.options.Reader.List(ctx, &found, client.InNamespace(c.options.Namespace), client.MatchingFields{metav1.ObjectNameField: name})
	if err != nil {
		return false, fmt.Errorf("look at AutoscalingListener %s, which has the name of a new one: %w", name, err)
	}
	return slices.ContainsFunc(found.Items, func(other v1alpha1.AutoscalingListener) bool { return kube.LabelledSet(&other) != p.key }), nil
}

// dropExtra deletes all listeners but the first, such as those that ARC left when it renamed one.
func (c *Controller) dropExtra(ctx context.Context, p *pass) error {
	for i := range p.listeners {
		extra := &p.listeners[i]
		if i == 0 || extra.DeletionTimestamp != nil {
			continue
		}
		if err := c.remove(ctx, extra); err != nil {
			return err
		}
		report.RecordEvent(ctx, c.options.Recorder, p.set, extra, listenerReplaced(extra.Name))
	}
	return nil
}

// listener returns the AutoscalingListener as it should be, without a name. It is in the manager's namespace, so it has of the spec what
// the policy lets through.
func (c *Controller) listener(p *pass, runnerSet string) *v1alpha1.AutoscalingListener {
	spec := &p.set.Spec
	ceiling := cmp.Or(p.ceiling, v1alpha1.MaxRunnersUnlimited) // the service accepts no larger number
	return &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   c.options.Namespace,
			Labels:      c.childLabels(p.set, c.options.ListenerPolicy.Inherited(p.set.Labels), p.accepted.Listener, v1alpha1.ComponentListener),
			Annotations: childAnnotations(p, p.accepted.Listener),
		},
		Spec: v1alpha1.AutoscalingListenerSpec{
			GitHubConfigUrl:               spec.GitHubConfigUrl,
			GitHubConfigSecret:            spec.GitHubConfigSecret,
			RunnerScaleSetID:              p.registration.ID,
			AutoscalingRunnerSetNamespace: p.set.Namespace,
			AutoscalingRunnerSetName:      p.set.Name,
			EphemeralRunnerSetName:        runnerSet,
			MaxRunners:                    min(spec.EffectiveMaxRunners(), ceiling),
			MinRunners:                    min(spec.EffectiveMinRunners(), ceiling),
			Image:                         c.options.ListenerImage,
			ImagePullSecrets:              imagePullSecrets(c.options.ListenerImagePullSecrets),
			Proxy:                         spec.Proxy,
			GitHubServerTLS:               spec.GitHubServerTLS,
			VaultConfig:                   spec.VaultConfig,
			Metrics:                       spec.ListenerMetrics,
			Template:                      p.accepted.Template,
			ConfigSecretMetadata:          p.accepted.ConfigSecret,
			ServiceAccountMetadata:        p.accepted.ServiceAccount,
			RoleMetadata:                  spec.ListenerRoleMetadata,
			RoleBindingMetadata:           spec.ListenerRoleBindingMetadata,
		},
	}
}
