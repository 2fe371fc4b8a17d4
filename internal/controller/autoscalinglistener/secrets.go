package autoscalinglistener

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/ownership"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/listener/config"
)

// Each of the listener's two Secrets is read every recheckInterval, in case somebody has changed it. That makes one
// read a minute, of the four that a scale set may make, and leaves three for credentials, CA and proxy.
const recheckInterval = 2 * time.Minute

// The credentials are read every refusedRecheckInterval while GitHub refuses the listener's, because somebody may be
// about to replace them. It makes the four reads a minute that a scale set may make.
const refusedRecheckInterval = 15 * time.Second

// applySecrets keeps the Secrets with the listener's configuration and proxy in line with the spec and the credentials.
// A running listener reads the mounted configuration again when it changes.
func (c *Controller) applySecrets(ctx context.Context, w *world) error {
	reference := credentials.ForAutoscalingListener(w.Object)
	w.Requeue.After(credentials.RereadInterval)
	if w.refused() {
		c.options.Credentials.Invalidate(reference)
		w.Requeue.After(refusedRecheckInterval)
	}
	resolved, err := c.options.Credentials.Resolve(ctx, reference)
	if credentials.IsVaultNotAllowed(err) {
		w.cause = err
		return c.withdraw(ctx, w)
	}
	if err != nil {
		return w.blame(err, fmt.Errorf("read the credentials: %w", err))
	}
	resolved, err = c.trusted(ctx, w, resolved)
	if err != nil {
		return fmt.Errorf("read what the listener has: %w", err)
	}
	w.resolved = resolved
	content, err := c.configuration(w.Object, resolved).Encode()
	if err != nil {
		return w.blame(err, err)
	}
	w.configuration, err = c.applySecret(ctx, w, credentials.ListenerConfigSuffix, w.Object.Spec.ConfigSecretMetadata,
		map[string][]byte{config.FileName: content})
	if err != nil {
		return err
	}
	if resolved.Proxy == nil {
		err = c.dropSecret(ctx, w, credentials.ListenerProxySuffix)
	} else {
		w.proxy, err = c.applySecret(ctx, w, credentials.ListenerProxySuffix, nil, resolved.Proxy.SecretData())
	}
	w.secretsReady = err == nil
	return err
}

// trusted returns the credentials, proxy and certificate authorities that the listener gets. These are the ones that
// were read. But as long as GitHub has not accepted the credentials of the set's present spec, the listener keeps its
// own: a listener that works must not lose its session to a mistyped token.
func (c *Controller) trusted(ctx context.Context, w *world, read *credentials.Resolved) (*credentials.Resolved, error) {
	valid := meta.FindStatusCondition(w.set.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	if valid == nil || (valid.Status == metav1.ConditionTrue && valid.ObservedGeneration == w.set.Generation) {
		w.Memory.trusted = read
		return read, nil
	}
	if w.Memory.trusted == nil {
		kept, err := c.options.Credentials.FromListener(ctx, w.Key)
		switch {
		case credentials.Unusable(err):
			return read, nil // it has none that it could lose
		case err != nil:
			return nil, err
		}
		w.Memory.trusted = kept
	}
	return w.Memory.trusted, nil
}

// refused reports whether GitHub refuses the listener's credentials. The listener got the 401, so it shows only in the
// set's status.
func (w *world) refused() bool {
	ready := meta.FindStatusCondition(w.set.Status.Conditions, v1alpha1.ConditionListenerReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && actions.RefusalClass(ready.Reason).IsKnown()
}

// blame remembers the cause if only a user can remove it. Otherwise it returns failure.
func (w *world) blame(cause, failure error) error {
	if _, invalid := errors.AsType[*config.InvalidError](cause); invalid || credentials.IsUserError(cause) {
		w.cause = cause
		return nil
	}
	return failure
}

// configuration returns the listener's configuration.
func (c *Controller) configuration(
	listener *v1alpha1.AutoscalingListener, resolved *credentials.Resolved,
) *config.Config {
	spec := &listener.Spec
	configuration := &config.Config{
		ConfigureURL:                spec.GitHubConfigUrl,
		Credentials:                 credentialFields(resolved.Credentials),
		EphemeralRunnerSetNamespace: spec.AutoscalingRunnerSetNamespace,
		EphemeralRunnerSetName:      spec.EphemeralRunnerSetName,
		MaxRunners:                  spec.MaxRunners,
		MinRunners:                  spec.MinRunners,
		PlacesJobs:                  spec.CapacityMode == v1alpha1.CapacityPlacement,
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

// credentialFields returns the credentials in a form that ARC's listener can read, too.
func credentialFields(resolved actions.Credentials) *config.Credentials {
	if app := resolved.App; app != nil {
		return &config.Credentials{AppID: app.ID, AppInstallationID: app.InstallationID, AppPrivateKey: app.PrivateKey}
	}
	return &config.Credentials{Token: resolved.Token}
}

// annotationRevision, on the listener's Secrets, is a random word that changes together with their data. The pod's
// annotations have the revision instead of a hash of the data: with a hash, whoever may read pods could try passwords.
const annotationRevision = "actions.github.com/revision"

// writtenSecret is the hash of a Secret, its revision, and the time at which it was last written or found to be up to
// date.
type writtenSecret struct {
	hash, revision string
	writtenAt      time.Time
}

// applySecret writes one of the listener's Secrets and returns its revision. It remembers what was written last, so
// that a pass for another reason needn't read the Secret.
func (c *Controller) applySecret(
	ctx context.Context, w *world, suffix string, metadata *v1alpha1.ResourceMeta, data map[string][]byte,
) (revision string, err error) {
	wanted := &corev1.Secret{
		ObjectMeta: metaHere(w.Object, c.options.Policy, metadata),
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
	wanted.Name += suffix
	wanted.OwnerReferences = kube.OwnedBy(w.Object)
	hash := kube.Hash(wanted)
	if written := w.Memory.secrets[suffix]; written.hash == hash &&
		written.writtenAt.After(w.Now.Add(-recheckInterval)) {
		return written.revision, nil
	}
	live, err := c.secret(ctx, client.ObjectKeyFromObject(wanted))
	if err != nil {
		return "", err
	}
	if live != nil {
		gone, err := w.objects.Claim(ctx, wanted, live)
		if err != nil {
			return "", err
		}
		if gone {
			live = nil
		}
	}
	revision = revisionOf(live, data)
	kube.SetAnnotation(wanted, annotationRevision, revision)
	if live == nil {
		err = kube.Create(ctx, c.options.Client, ownership.Bare(wanted), wanted)
	} else {
		_, err = kube.Apply(ctx, c.options.Client, wanted, live)
	}
	if err != nil {
		return "", err
	}
	w.Memory.secrets[suffix] = writtenSecret{hash: hash, revision: revision, writtenAt: w.Now}
	return revision, nil
}

// revisionOf returns the revision of a Secret that is to have this data: a new one unless it has the data already.
func revisionOf(live *corev1.Secret, data map[string][]byte) string {
	if live != nil && live.Annotations[annotationRevision] != "" && equality.Semantic.DeepEqual(live.Data, data) {
		return live.Annotations[annotationRevision]
	}
	return string(uuid.NewUUID())
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

// withdraw takes from a listener the credentials of a vault that its set may not read, or no longer may. After other
// causes a running listener keeps its credentials, which are its own.
func (c *Controller) withdraw(ctx context.Context, w *world) error {
	for _, suffix := range []string{credentials.ListenerConfigSuffix, credentials.ListenerProxySuffix} {
		if err := c.dropSecret(ctx, w, suffix); err != nil {
			return err
		}
	}
	if _, err := c.awaitStrays(ctx, w); err != nil || w.pod == nil {
		return err
	}
	state, err := c.assess(ctx, w, w.pod, listenerpod.Unwanted)
	if err != nil {
		return err
	}
	if state.Reason != v1alpha1.ReasonPodTerminating {
		state.Reason, state.Message = v1alpha1.ReasonVaultNotAllowed, w.cause.Error()
	}
	w.state = state
	return c.applyAction(ctx, w, w.pod, state)
}

// dropSecret deletes, a single time, a Secret that the listener no longer has, such as that of a proxy that was removed
// from the spec. The pod that used it is about to be replaced, because the proxy is part of its hash.
func (c *Controller) dropSecret(ctx context.Context, w *world, suffix string) error {
	if w.Memory.secrets[suffix].hash == noSecret {
		return nil
	}
	if err := c.deleteSecret(ctx, w, suffix); err != nil {
		return err
	}
	w.Memory.secrets[suffix] = writtenSecret{hash: noSecret, writtenAt: w.Now}
	return nil
}

// deleteSecret deletes a Secret if there is one, unless it only has the name of the listener's.
func (c *Controller) deleteSecret(ctx context.Context, w *world, suffix string) error {
	named := &corev1.Secret{}
	named.Namespace, named.Name, named.OwnerReferences = w.Object.Namespace, w.Object.Name+suffix,
		kube.OwnedBy(w.Object)
	live, err := c.secret(ctx, client.ObjectKeyFromObject(named))
	if err != nil || live == nil {
		return err
	}
	if err := w.objects.Delete(ctx, named, live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", named.Name, err)
	}
	w.findKept(named, live)
	return nil
}
