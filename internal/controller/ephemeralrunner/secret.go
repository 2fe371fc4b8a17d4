package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// The runner's Secret has the runner's name, which somebody else's Secret may already have. That Secret is neither
// overwritten nor deleted. No cache holds Secrets, so it takes a read to tell whose a Secret is, unless this manager created
// it.

// isRunners reports whether a Secret was created for the runner, or for an earlier runner of the same name, even if it has lost its owner
// in a backup.
func isRunners(secret *corev1.Secret, runner *v1alpha1.EphemeralRunner) bool {
	owner := metav1.GetControllerOf(secret)
	return owner != nil && owner.Kind == "EphemeralRunner" && owner.Name == runner.Name || isAbandonedSecret(secret, runner.Name)
}

// readSecret returns the Secret that has the runner's name, nil if there is none.
func (c *Controller) readSecret(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.options.Client.Get(ctx, client.ObjectKeyFromObject(runner), secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	default:
		return secret, nil
	}
}

// storedRegistration returns the registration with that id from the runner's Secret. It returns nil if the Secret has none
// that can be used; it may be that of an earlier registration.
func (c *Controller) storedRegistration(ctx context.Context, shared *provisionMemory, runner *v1alpha1.EphemeralRunner,
	known int,
) (*registration, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	secret, err := c.readSecret(ctx, runner)
	switch {
	case err != nil:
		return nil, secretUnreadable(runner, err)
	case secret == nil || !metav1.IsControlledBy(secret, runner):
		return nil, nil
	}
	id, err := strconv.Atoi(string(secret.Data[secretKeyRunnerID]))
	if err != nil || id != known || len(secret.Data[secretKeyJITConfig]) == 0 {
		return nil, nil
	}
	shared.noteSecret(secret.UID)
	return &registration{id: id, config: string(secret.Data[secretKeyJITConfig]), stored: true}, nil
}

func secretUnreadable(runner *v1alpha1.EphemeralRunner, err error) *failure {
	return requestFailure(v1alpha1.ReasonSecretUnreadable, "read Secret "+runner.Name, err)
}

// createSecret stores the JIT config. A Secret of an earlier registration is replaced.
func (c *Controller) createSecret(ctx context.Context, shared *provisionMemory, runner *v1alpha1.EphemeralRunner,
	registered *registration,
) error {
	if registered.stored {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	secret := newSecret(runner, registered)
	err := c.options.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.replaceSecret(ctx, runner, secret)
	}
	if err != nil {
		shared.keepUnstored(registered)
		return secretFailure(runner, err)
	}
	shared.noteSecret(secret.UID)
	return nil
}

// replaceSecret replaces the Secret of an earlier registration.
func (c *Controller) replaceSecret(ctx context.Context, runner *v1alpha1.EphemeralRunner, secret *corev1.Secret) error {
	former, err := c.readSecret(ctx, runner)
	switch {
	case err != nil:
		return secretUnreadable(runner, err)
	case former == nil:
		return c.options.Client.Create(ctx, secret) // it was deleted in the meantime
	case !isRunners(former, runner):
		return &failure{kind: failureNameTaken, reason: "SecretNameTaken", message: fmt.Sprintf(
			"a Secret %s exists that is not the runner's: another runner takes this one's place; delete the Secret if nobody needs it", runner.Name)}
	default:
		secret.UID, secret.ResourceVersion = former.UID, former.ResourceVersion
		return c.options.Client.Update(ctx, secret)
	}
}

// secretFailure returns why a Secret could not be stored.
func secretFailure(runner *v1alpha1.EphemeralRunner, err error) error {
	known, isKnown := errors.AsType[*failure](err)
	switch {
	case isKnown:
		return known
	case kube.IsNamespaceTerminating(err):
		return errNamespaceClosed
	case apierrors.IsInvalid(err):
		return &failure{kind: failureInvalid, reason: v1alpha1.ReasonInvalidSecret, message: fmt.Sprintf(
			"the API server rejects the metadata of the runner's Secret: %v: correct ephemeralRunnerConfigSecretMetadata", err)}
	case kube.IsQuotaExceeded(err):
		return &failure{reason: v1alpha1.ReasonQuotaExceeded, message: err.Error()}
	default:
		return requestFailure(v1alpha1.ReasonSecretRefused, "create Secret "+runner.Name, err)
	}
}

// deleteSecret deletes the runner's Secret, once.
func (c *Controller) deleteSecret(ctx context.Context, p *pass) error {
	if p.memory.secretDeleted {
		return nil
	}
	known, err := c.ownSecret(ctx, p)
	if err != nil {
		return err
	}
	if known != "" {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		err := c.options.Client.Delete(ctx, secret, client.Preconditions{UID: &known})
		if err := p.ignoreGoneOrForbidden("delete Secret", err); err != nil {
			return err
		}
	}
	p.memory.shared.noteSecret("")
	p.memory.secretDeleted = true
	return nil
}

// ownSecret returns the UID of the runner's Secret, empty if it has none.
func (c *Controller) ownSecret(ctx context.Context, p *pass) (types.UID, error) {
	if known := p.memory.shared.knownSecret(); known != "" {
		return known, nil
	}
	secret, err := c.readSecret(ctx, p.EphemeralRunner)
	if err != nil {
		return "", p.ignoreGoneOrForbidden("read Secret", err)
	}
	if secret == nil || !isRunners(secret, p.EphemeralRunner) {
		return "", nil
	}
	return secret.UID, nil
}
