package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// writeTimeout bounds a request to the API server that is made in the pool.
const writeTimeout = 30 * time.Second

// provision registers the runner and creates its Secret and Pod, in the pool. With reuse the JIT config in the Secret
// is known to be unused and is taken, if it is there.
func (c *Controller) provision(r *run, reuse bool) {
	runner := r.EphemeralRunner
	c.provisions.Go(groupOf(runner), r.key, func(ctx context.Context) (int, error) {
		if c.abandoned(r.key) {
			return 0, errAbandoned
		}
		registered, err := c.register(ctx, r.key, runner, reuse)
		if err != nil {
			return 0, err
		}
		return registered.id, c.materialize(ctx, r.key, runner, registered)
	})
}

// errAbandoned ends the provision of a runner that is being deleted. Nobody reads it but the runner's farewell.
var errAbandoned = &failure{kind: closed, reason: "Deleted", message: "the runner is being deleted"}

// materialize creates Secret and Pod of a registered runner, unless it is being deleted by now.
func (c *Controller) materialize(ctx context.Context, k key, runner *v1alpha1.EphemeralRunner, registered *registration) error {
	if c.abandoned(k) {
		return errAbandoned
	}
	if err := c.createSecret(ctx, runner, registered); err != nil {
		return err
	}
	if c.abandoned(k) {
		return errAbandoned
	}
	return c.createPod(ctx, runner, registered.id)
}

// groupOf is the scale set in whose name calls are made.
func groupOf(runner *v1alpha1.EphemeralRunner) string {
	return runner.Labels[v1alpha1.LabelScaleSetNamespace] + "/" + runner.Labels[v1alpha1.LabelScaleSetName]
}

// registration is a runner's id on GitHub and its JIT config.
type registration struct {
	id     int
	config string
	stored bool // the Secret holds it already
}

// register returns a registration whose JIT config was never used.
func (c *Controller) register(ctx context.Context, k key, runner *v1alpha1.EphemeralRunner, reuse bool) (*registration, error) {
	if reuse {
		if stored, err := c.storedRegistration(ctx, runner); err != nil || stored != nil {
			return stored, err
		}
	}
	github, err := c.GitHub(ctx, credentials.ForEphemeralRunner(runner))
	if err != nil {
		return nil, registrationFailure(err)
	}
	c.noteAsked(k)
	asked := c.Clock.Now()
	config, err := github.GenerateJITConfig(ctx, runner.Spec.RunnerScaleSetID, actions.JITConfigRequest{
		Name: runner.Name, WorkFolder: workFolder(&runner.Spec.PodSpec),
	})
	jitSeconds.Observe(c.Clock.Since(asked).Seconds())
	if errors.Is(err, actions.ErrRunnerExists) {
		return c.resolveConflict(ctx, github, runner)
	}
	if err != nil {
		return nil, registrationFailure(err)
	}
	return &registration{id: config.Runner.ID, config: config.EncodedJITConfig}, nil
}

// resolveConflict deals with a name that is taken. Most often it is taken by ourselves: the answer to an earlier call
// was lost, or the manager was restarted before it had created the pod.
func (c *Controller) resolveConflict(ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner) (*registration, error) {
	stored, err := c.storedRegistration(ctx, runner)
	if err != nil || stored != nil {
		return stored, err
	}
	holder, err := github.GetRunnerByName(ctx, runner.Name)
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return nil, &failure{reason: "RunnerNameTaken", message: fmt.Sprintf("GitHub said that the name %s is taken, but knows no such runner: trying again", runner.Name)}
	case err != nil:
		return nil, registrationFailure(err)
	case holder.RunnerScaleSetID != runner.Spec.RunnerScaleSetID:
		return nil, &failure{kind: nameTaken, reason: "RunnerNameTaken", message: fmt.Sprintf(
			"runner %s exists on GitHub in scale set %d: another runner takes this one's place", runner.Name, holder.RunnerScaleSetID)}
	}
	if err := github.RemoveRunner(ctx, holder.ID); err != nil {
		return nil, registrationFailure(err)
	}
	return nil, &failure{reason: "RunnerNameTaken", message: "an earlier registration of the runner was removed: registering again"}
}

// storedRegistration reads the registration from the runner's Secret; nil where there is none that can be used.
func (c *Controller) storedRegistration(ctx context.Context, runner *v1alpha1.EphemeralRunner) (*registration, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	secret := &corev1.Secret{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(runner), secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, &failure{reason: "SecretUnreadable", message: fmt.Sprintf("read Secret %s: %v", runner.Name, err)}
	}
	id, err := strconv.Atoi(string(secret.Data[secretKeyRunnerID]))
	if err != nil || id <= 0 || len(secret.Data[secretKeyJITConfig]) == 0 || !metav1.IsControlledBy(secret, runner) {
		return nil, nil
	}
	return &registration{id: id, config: string(secret.Data[secretKeyJITConfig]), stored: true}, nil
}

// createSecret stores the JIT config. One of an earlier registration is replaced.
func (c *Controller) createSecret(ctx context.Context, runner *v1alpha1.EphemeralRunner, registered *registration) error {
	if registered.stored {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.Client.Create(ctx, newSecret(runner, registered))
	if apierrors.IsAlreadyExists(err) {
		err = c.Client.Update(ctx, newSecret(runner, registered))
	}
	switch {
	case err == nil:
		return nil
	case isTerminating(err):
		return errNamespaceClosed
	case apierrors.IsInvalid(err):
		return &failure{kind: invalid, reason: "InvalidSecret", message: fmt.Sprintf("the metadata for the runner's Secret are not accepted: %v", err)}
	default:
		return &failure{reason: "SecretRefused", message: fmt.Sprintf("create Secret %s: %v", runner.Name, err)}
	}
}

// errNamespaceClosed ends the attempts in a namespace that is being deleted: nothing can be made there any more.
var errNamespaceClosed = &failure{kind: closed, reason: "NamespaceTerminating", message: "the namespace is being deleted"}

func isTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// createPod creates the pod. What the API server finds wrong with it no repetition mends; what it forbids (a quota, a
// policy) may be allowed later.
func (c *Controller) createPod(ctx context.Context, runner *v1alpha1.EphemeralRunner, id int) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.Client.Create(ctx, newPod(runner, id, c.Version))
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return c.podThere(ctx, runner)
	case isTerminating(err):
		return errNamespaceClosed
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return &failure{kind: invalid, reason: "InvalidPod", message: fmt.Sprintf("the pod template is not accepted: %v", err)}
	case isQuota(err):
		return &failure{reason: v1alpha1.ConditionQuotaExceeded, message: err.Error()}
	case apierrors.IsForbidden(err):
		return &failure{reason: "PodForbidden", message: err.Error()}
	default:
		return &failure{reason: "PodRefused", message: fmt.Sprintf("create pod %s: %v", runner.Name, err)}
	}
}

// isQuota says that a ResourceQuota has no room. The API server gives its refusals no cause of their own, so beside the
// type there is only its text, which has begun like this since quotas exist.
func isQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: ")
}

// podThere decides what a pod is that has the runner's name already: most often the one made by an earlier call whose
// answer was lost.
func (c *Controller) podThere(ctx context.Context, runner *v1alpha1.EphemeralRunner) error {
	pod := &corev1.Pod{}
	err := c.Reader.Get(ctx, client.ObjectKeyFromObject(runner), pod)
	switch {
	case err != nil:
		return &failure{reason: "PodUnreadable", message: fmt.Sprintf("read pod %s, which exists: %v", runner.Name, err)}
	case !metav1.IsControlledBy(pod, runner):
		return &failure{kind: nameTaken, reason: "PodNameTaken", message: fmt.Sprintf(
			"a pod %s exists that is not the runner's: another runner takes this one's place", runner.Name)}
	case pod.DeletionTimestamp != nil:
		return &failure{reason: "PodTerminating", message: fmt.Sprintf("the former pod %s is being deleted", runner.Name)}
	default:
		return nil
	}
}

// registrationFailure says what kept a runner from being registered.
func registrationFailure(err error) *failure {
	f := &failure{reason: "RegistrationFailed", message: err.Error()}
	var limited *actions.RateLimitedError
	switch {
	case errors.As(err, &limited):
		f.reason, f.until = v1alpha1.ReasonRateLimited, limited.Until
	case errors.Is(err, actions.ErrUnauthorized):
		f.reason = v1alpha1.ReasonUnauthorized
	case errors.Is(err, actions.ErrScaleSetNotFound):
		f.reason = v1alpha1.ReasonScaleSetNotFound
	case credentials.Gone(err):
		f.reason = v1alpha1.ReasonCredentialsMissing
	}
	return f
}
