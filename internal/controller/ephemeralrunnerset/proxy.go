package ephemeralrunnerset

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// proxyTrusted is how long the proxy Secret is taken for granted once it was written. Secrets aren't watched: one that
// somebody has deleted would keep all pods from starting, and is back after this time.
const proxyTrusted = time.Minute

// restoreProxySecret looks after the proxy Secret while runners start that need it and none is made.
func (c *Controller) restoreProxySecret(ctx context.Context, p *pass) error {
	if p.plan.tally.starting == 0 || p.memory.closed {
		return nil
	}
	_, err := c.ensureProxySecret(ctx, p)
	return err
}

// ensureProxySecret writes the Secret that gives runner containers their proxy, if there is one and it changed since
// the last time or that was long ago, and returns its name.
func (c *Controller) ensureProxySecret(ctx context.Context, p *pass) (string, error) {
	set, m := p.set, p.memory
	if set.Spec.EphemeralRunnerSpec.Proxy == nil {
		return "", nil
	}
	data, err := c.options.Proxy(ctx, credentials.ForEphemeralRunnerSet(set))
	if err != nil {
		return "", fmt.Errorf("resolve the runners' proxy: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: proxySecretName(set),
			Labels: map[string]string{
				v1alpha1.LabelScaleSetName:      set.Labels[v1alpha1.LabelScaleSetName],
				v1alpha1.LabelScaleSetNamespace: set.Labels[v1alpha1.LabelScaleSetNamespace],
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("EphemeralRunnerSet"))},
		},
		Data: data,
	}
	hash := kube.Hash(secret)
	now := c.options.Clock.Now()
	if hash == m.proxyHash && now.Sub(m.proxyApplied) < proxyTrusted {
		return secret.Name, nil
	}
	if _, err := kube.Apply(ctx, c.options.Client, secret, nil); err != nil {
		return "", err
	}
	m.proxyHash, m.proxyApplied = hash, now
	return secret.Name, nil
}

// proxySecretName is ARC's.
func proxySecretName(set *v1alpha1.EphemeralRunnerSet) string {
	return fmt.Sprintf("%s-%s-runner-proxy", set.Name, kube.NameHash(set.Namespace))
}
