package autoscalinglistener

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// recheckPeriod is how often each of the listener's two Secrets is read to see whether somebody changed it. That makes one read a
// minute, of the four that a scale set may make, and leaves three for credentials, CA and proxy.
const recheckPeriod = 2 * time.Minute

// refusedRecheckPeriod is how often the credentials are read while GitHub refuses the listener's, because somebody may be about to
// replace them. It makes the four reads a minute that a scale set may make.
const refusedRecheckPeriod = 15 * time.Second

// applySecrets keeps the Secrets with the listener's configuration and proxy in line with the spec and the credentials. A running
// listener reads the mounted configuration again when it changes.
func (c *Controller) applySecrets(ctx context.Context, p *pass) error {
	reference := credentials.ForAutoscalingListener(p.listener)
	p.requeue.After(credentials.RereadAfter)
	if p.refused() {
		c.options.Credentials.Invalidate(reference)
		p.requeue.After(refusedRecheckPeriod)
	}
	resolved, err := c.options.Credentials.Resolve(ctx, reference)
	if err != nil {
		return p.obstruct(err, fmt.Errorf("read the credentials: %w", err))
	}
	p.resolved = resolved
	content, err := c.configuration(p.listener, resolved).Encode()
	if err != nil {
		return p.obstruct(err, err)
	}
	if err := c.applySecret(ctx, p, credentials.ListenerConfigSuffix, p.listener.Spec.ConfigSecretMetadata, map[string][]byte{config.FileName: content}); err != nil {
		return err
	}
	if resolved.Proxy == nil {
		err = c.dropProxySecret(ctx, p)
	} else {
		err = c.applySecret(ctx, p, credentials.ListenerProxySuffix, nil, resolved.Proxy.SecretData())
	}
	p.secretsReady = err == nil
	return err
}

// refused reports whether GitHub refuses the listener's credentials. The listener got the 401, so it shows only in the set's status.
func (p *pass) refused() bool {
	ready := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionListenerReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonUnauthorized
}

// obstruct sets the obstacle if only a user can remove the cause. Otherwise it returns failure.
func (p *pass) obstruct(cause, failure error) error {
	if _, invalid := errors.AsType[*config.InvalidError](cause); invalid || credentials.IsUserError(cause) {
		p.obstacle = cause
		return nil
	}
	return failure
}

// configuration returns the listener's configuration.
func (c *Controller) configuration(listener *v1alpha1.AutoscalingListener, resolved *credentials.Resolved) *config.Config {
	spec := &listener.Spec
	configuration := &config.Config{
		ConfigureURL:                spec.GitHubConfigUrl,
		Credentials:                 credentialFields(resolved.Credentials),
		EphemeralRunnerSetNamespace: spec.AutoscalingRunnerSetNamespace,
		EphemeralRunnerSetName:      spec.EphemeralRunnerSetName,
		MaxRunners:                  spec.MaxRunners,
		MinRunners:                  spec.MinRunners,
		RunnerScaleSetID:            spec.RunnerScaleSetID,
		RunnerScaleSetName:          spec.AutoscalingRunnerSetName,
		ServerRootCA:                resolved.RootCAs,
		LogLevel:                    c.options.LogLevel,
		LogFormat:                   c.options.LogFormat,
		Metrics:                     spec.Metrics,
		Addresses:                   &config.Addresses{AllowedGitHubURLs: c.options.AllowedGitHubURLs},
	}
	if c.metricsEnabled() {
		configuration.MetricsAddr, configuration.MetricsEndpoint = c.options.MetricsAddr, c.options.MetricsEndpoint
		configuration.MetricsLabels = c.options.MetricsLabels
	}
	return configuration
}

// metricsEnabled asks the configuration, so that manager and listener agree on what "0" means.
func (c *Controller) metricsEnabled() bool {
	return (&config.Config{MetricsAddr: c.options.MetricsAddr}).MetricsEnabled()
}

// credentialFields returns the credentials in a form that ARC's listener can read, too.
func credentialFields(resolved actions.Credentials) *config.Credentials {
	if app := resolved.App; app != nil {
		return &config.Credentials{AppID: app.ID, AppInstallationID: app.InstallationID, AppPrivateKey: app.PrivateKey}
	}
	return &config.Credentials{Token: resolved.Token}
}

// applySecret writes one of the listener's Secrets. It remembers what was written last, so that a pass for another reason needn't
// read the Secret.
func (c *Controller) applySecret(ctx context.Context, p *pass, suffix string, metadata *v1alpha1.ResourceMeta, data map[string][]byte) error {
	wanted := &corev1.Secret{ObjectMeta: objectMeta(p.listener, p.listener.Namespace, metadata, nil), Type: corev1.SecretTypeOpaque, Data: data}
	wanted.Name += suffix
	wanted.OwnerReferences = kube.OwnedBy(p.listener)
	hash := kube.Hash(wanted)
	if suffix == credentials.ListenerConfigSuffix {
		p.configuration = hash
	}
	if p.memory.secretIs(suffix, hash, p.now.Add(-recheckPeriod)) {
		return nil
	}
	live, err := c.secret(ctx, client.ObjectKeyFromObject(wanted))
	if err != nil {
		return err
	}
	var found client.Object
	if live != nil {
		found = live
	}
	if _, err := kube.Apply(ctx, c.options.Client, wanted, found); err != nil {
		return err
	}
	p.memory.noteSecret(suffix, hash, p.now)
	return nil
}

// secret returns a Secret, nil if there is none.
func (c *Controller) secret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	err := c.options.Reader.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	return found, nil
}

// noSecret is remembered as the hash of a Secret that was deleted.
const noSecret = "none"

// dropProxySecret deletes the Secret of a proxy that was removed from the spec. The pod that used it is about to be replaced,
// because the proxy is part of its hash.
func (c *Controller) dropProxySecret(ctx context.Context, p *pass) error {
	if p.memory.secretIs(credentials.ListenerProxySuffix, noSecret, time.Time{}) {
		return nil
	}
	if err := c.deleteSecret(ctx, p, credentials.ListenerProxySuffix); err != nil {
		return err
	}
	p.memory.noteSecret(credentials.ListenerProxySuffix, noSecret, p.now)
	return nil
}

// deleteSecret deletes a Secret without reading it first. It succeeds if there is none.
func (c *Controller) deleteSecret(ctx context.Context, p *pass, suffix string) error {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = p.listener.Namespace, p.listener.Name+suffix
	if err := c.options.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", secret.Name, err)
	}
	return nil
}
