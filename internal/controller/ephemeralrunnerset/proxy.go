package ephemeralrunnerset

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// proxyReapplyPeriod is how long the proxy Secret is assumed to be unchanged after it was written. Secrets aren't watched: if
// somebody deletes it, no pod can start until it is written again after this time.
const proxyReapplyPeriod = time.Minute

// restoreProxySecret ensures the proxy Secret for runners that are starting, in passes that create none.
func (c *Controller) restoreProxySecret(ctx context.Context, p *pass) error {
	if p.plan.Tally.Starting == 0 || p.state.Creations.Closed {
		return nil
	}
	_, err := c.ensureProxySecret(ctx, p)
	return err
}

// ensureProxySecret writes the Secret that gives runner containers their proxy and returns its name, empty if the set has no
// proxy. An unchanged Secret is written again after proxyReapplyPeriod.
func (c *Controller) ensureProxySecret(ctx context.Context, p *pass) (string, error) {
	set, s := p.set, p.state
	if set.Spec.EphemeralRunnerSpec.Proxy == nil {
		return "", nil
	}
	data, err := c.options.Proxy(ctx, credentials.ForEphemeralRunnerSet(set))
	if err != nil {
		return "", fmt.Errorf("resolve the runners' proxy: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: kube.RunnerProxySecretName(set.Name, set.Namespace),
			Labels: map[string]string{
				v1alpha1.LabelScaleSetName:      set.Labels[v1alpha1.LabelScaleSetName],
				v1alpha1.LabelScaleSetNamespace: set.Labels[v1alpha1.LabelScaleSetNamespace],
			},
			OwnerReferences: kube.OwnedBy(set),
		},
		Data: data,
	}
	hash := kube.Hash(secret)
	now := c.options.Clock.Now()
	if hash == s.proxyHash && now.Sub(s.proxyAppliedAt) < proxyReapplyPeriod {
		return secret.Name, nil
	}
	if _, err := kube.Apply(ctx, c.options.Client, secret, nil); err != nil {
		return "", err
	}
	s.proxyHash, s.proxyAppliedAt = hash, now
	return secret.Name, nil
}

// noProxySecret replaces proxyHash when the Secret has been deleted.
const noProxySecret = "none"

// dropProxySecret deletes, once, the Secret of a proxy that is no longer in the spec, unless a runner that may still get a
// pod needs it. It does not check first whether the Secret exists, so that a manager that has just started sends one request
// per set.
func (c *Controller) dropProxySecret(ctx context.Context, p *pass) error {
	set, s, now := p.set, p.state, c.options.Clock.Now()
	if set.Spec.EphemeralRunnerSpec.Proxy != nil || s.proxyHash == noProxySecret {
		return nil
	}
	if p.unseen.Expected > 0 || slices.ContainsFunc(p.views, (*roster.Runner).NeedsProxySecret) {
		return nil
	}
	if now.Before(s.proxyDropAt) {
		p.requeueBy(s.proxyDropAt)
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: kube.RunnerProxySecretName(set.Name, set.Namespace)}}
	if err := c.options.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		s.proxyDropAt = now.Add(proxyReapplyPeriod)
		return fmt.Errorf("delete Secret %s of a proxy that is no longer in the spec: %w", secret.Name, err)
	}
	s.proxyHash = noProxySecret
	return nil
}
