package autoscalingrunnerset

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// applyListener keeps one AutoscalingListener as the spec wants it. It is found by its labels and changed in place: ARC derives the
// name from group and address, and a second listener would compete for the only session. Only a new one gets the derived name.
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
		_, err := kube.Apply(ctx, c.options.Client, wanted, nil)
		return err
	}
	if live.DeletionTimestamp != nil {
		return nil // the event that it is gone brings the pass that creates a new one
	}
	applied, err := kube.Apply(ctx, c.options.Client, wanted, live)
	if err != nil || applied {
		return err
	}
	pruned := live.DeepCopy()
	pruned.Spec = wanted.Spec
	return c.prune(ctx, pruned, live)
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

// listener returns the AutoscalingListener as it should be.
func (c *Controller) listener(p *pass, runnerSet string) *v1alpha1.AutoscalingListener {
	spec := &p.set.Spec
	name := kube.ListenerName(p.set)
	if live := p.listener(); live != nil {
		name = live.Name
	}
	ceiling := cmp.Or(p.ceiling, v1alpha1.MaxRunnersUnlimited) // the service accepts no larger number
	return &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   c.options.Namespace,
			Name:        name,
			Labels:      c.childLabels(p.set, spec.AutoscalingListenerMetadata, v1alpha1.ComponentListener),
			Annotations: childAnnotations(p, spec.AutoscalingListenerMetadata),
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
			Template:                      spec.ListenerTemplate,
			ConfigSecretMetadata:          spec.ListenerConfigSecretMetadata,
			ServiceAccountMetadata:        spec.ListenerServiceAccountMetadata,
			RoleMetadata:                  spec.ListenerRoleMetadata,
			RoleBindingMetadata:           spec.ListenerRoleBindingMetadata,
		},
	}
}
