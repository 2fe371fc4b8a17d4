package ephemeralrunner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// writeTimeout bounds a request to the API server that is sent from the pool.
const writeTimeout = 30 * time.Second

// provision registers the runner and creates its Secret and Pod, in the pool. A known registration has an unused JIT config
// (see recordedRunnerID), which is taken from the Secret if it is there.
func (c *Controller) provision(p *pass) {
	runner, known := p.EphemeralRunner, p.memory.runnerID // no copy: a pass that provisions writes no status
	shared := &p.memory.shared
	c.provisions.Go(groupOf(runner), p.key, func(ctx context.Context) (int, error) {
		if shared.isAbandoned() {
			return 0, errAbandoned
		}
		ctx = withRunnerLogger(ctx, runner)
		registered, err := c.register(ctx, shared, runner, known)
		if err != nil {
			return 0, err
		}
		return registered.id, c.createSecretAndPod(ctx, shared, runner, registered)
	})
}

// errAbandoned ends the provisioning of a runner that is being deleted. Only its finalization reads it.
var errAbandoned = &failure{kind: failureClosed, reason: "Deleted", message: "the runner is being deleted"}

// createSecretAndPod creates Secret and Pod of a registered runner, unless the runner is being deleted by now.
func (c *Controller) createSecretAndPod(ctx context.Context, shared *provisionMemory, runner *v1alpha1.EphemeralRunner,
	registered *registration,
) error {
	if shared.isAbandoned() {
		return errAbandoned
	}
	if err := c.createSecret(ctx, shared, runner, registered); err != nil {
		return err
	}
	if shared.isAbandoned() {
		return errAbandoned
	}
	return c.createPod(ctx, runner, registered.id)
}

// groupOf returns the group of the runner's calls in the pool: its scale set.
func groupOf(runner *v1alpha1.EphemeralRunner) string { return kube.ScaleSetOf(runner).String() }

// registration is a runner's id on GitHub and its JIT config.
type registration struct {
	id     int
	config string
	stored bool // the Secret has it already
}

// register returns a registration whose JIT config was never used, or the registration that the runner's pod already uses.
func (c *Controller) register(ctx context.Context, shared *provisionMemory, runner *v1alpha1.EphemeralRunner, known int) (*registration, error) {
	if unstored := shared.unstoredWith(known); unstored != nil {
		return unstored, nil
	}
	if known != 0 {
		if stored, err := c.storedRegistration(ctx, shared, runner, known); err != nil || stored != nil {
			return stored, err
		}
	}
	github, err := c.options.GitHub(ctx, credentials.ForEphemeralRunner(runner))
	if err != nil {
		return nil, notRegistered(err)
	}
	shared.noteAsked()
	config, err := c.generate(ctx, github, runner)
	if errors.Is(err, actions.ErrRunnerExists) {
		if used, err := c.resolveConflict(ctx, github, runner, err); err != nil || used != nil {
			return used, err
		}
		config, err = c.generate(ctx, github, runner)
	}
	if err != nil {
		return nil, notRegistered(err)
	}
	return &registration{id: config.Runner.ID, config: config.EncodedJITConfig}, nil
}

// generate asks GitHub for a registration, and measures how long the answer takes.
func (c *Controller) generate(ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner) (*actions.JITConfig, error) {
	asked := c.options.Clock.Now()
	defer func() { jitSeconds.Observe(c.options.Clock.Since(asked).Seconds()) }()
	return github.GenerateJITConfig(ctx, runner.Spec.RunnerScaleSetID, actions.JITConfigRequest{
		Name: runner.Name, WorkFolder: workFolder(&runner.Spec.PodSpec),
	})
}

// resolveConflict frees a name that is taken, or returns the registration that the runner's pod uses. Usually the runner
// itself has the name: the answer to an earlier call was lost, or the manager was restarted. Its Secret may exist, but only
// GitHub can tell whether a container has started with it. If GitHub agrees to remove the registration, it has no job; if
// GitHub refuses, its job has lost the pod.
func (c *Controller) resolveConflict(ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner, taken error) (*registration, error) {
	holder, err := github.GetRunnerByName(ctx, runner.Name)
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return nil, &failure{reason: v1alpha1.ReasonRunnerNameTaken, message: fmt.Sprintf(
			"%v, yet GitHub finds no runner named %s: trying again", taken, runner.Name)}
	case err != nil:
		return nil, notRegistered(err)
	case holder.RunnerScaleSetID != runner.Spec.RunnerScaleSetID:
		return nil, &failure{kind: failureNameTaken, reason: v1alpha1.ReasonRunnerNameTaken, message: fmt.Sprintf(
			"runner %s exists on GitHub in scale set %d: another runner takes this one's place", runner.Name, holder.RunnerScaleSetID)}
	}
	if used, err := c.usedRegistration(ctx, runner, holder.ID); err != nil || used != nil {
		return used, err
	}
	err = github.RemoveRunner(ctx, holder.ID)
	if errors.Is(err, actions.ErrRunnerNotFound) {
		return nil, nil // no pod could have a job; asking for a registration shows whether the name is free
	}
	return nil, removalFailure(err)
}

// usedRegistration returns the registration with that id if the runner's pod was created with it, otherwise nil. It asks the
// API server: a stale cache does not show a pod that another manager created just before it stopped, and that pod may have a
// job by now.
func (c *Controller) usedRegistration(ctx context.Context, runner *v1alpha1.EphemeralRunner, id int) (*registration, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	pod, err := ownPod(ctx, c.options.Reader, runner)
	switch {
	case err != nil:
		return nil, podUnreadable(runner, err)
	case pod == nil || pod.DeletionTimestamp != nil || runnerIDOf(pod, id) != id:
		return nil, nil
	default:
		return &registration{id: id, stored: true}, nil
	}
}

func podUnreadable(runner *v1alpha1.EphemeralRunner, err error) *failure {
	return requestFailure("PodUnreadable", "read pod "+runner.Name, err)
}

// requestFailure returns the failure of a request that will be repeated. The reason is for one that the API server has answered.
func requestFailure(reason, request string, err error) *failure {
	f := &failure{reason: reason, message: fmt.Sprintf("%s: %v", request, err)}
	if kube.IsUnanswered(err) {
		f.kind, f.reason = failureAway, v1alpha1.ReasonAPIServerUnavailable
	}
	return f
}

// errNamespaceClosed ends the attempts in a namespace that is being deleted: nothing can be created there any more.
var errNamespaceClosed = &failure{kind: failureClosed, reason: "NamespaceTerminating", message: "the namespace is being deleted"}

// createPod creates the pod. Retrying does not help if the API server calls the pod invalid; what it forbids because of a
// quota or policy may be allowed later.
func (c *Controller) createPod(ctx context.Context, runner *v1alpha1.EphemeralRunner, id int) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	pod := newPod(runner, id, c.options.Version)
	err := c.options.Client.Create(ctx, pod)
	switch {
	case err == nil:
		c.untrack(ctx, pod)
		return nil
	case apierrors.IsAlreadyExists(err):
		return c.checkExistingPod(ctx, runner)
	case kube.IsNamespaceTerminating(err):
		return errNamespaceClosed
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return &failure{kind: failureInvalid, reason: v1alpha1.ReasonInvalidPod, message: fmt.Sprintf(
			"the API server rejects the pod template: %v: correct spec.template of the AutoscalingRunnerSet", err)}
	case kube.IsQuotaExceeded(err):
		return &failure{reason: v1alpha1.ReasonQuotaExceeded, message: err.Error()}
	case apierrors.IsForbidden(err):
		return &failure{reason: v1alpha1.ReasonPodForbidden, message: fmt.Sprintf(
			"%v: change spec.template of the AutoscalingRunnerSet, or what forbids it in namespace %s", err, runner.Namespace)}
	default:
		return requestFailure(v1alpha1.ReasonPodRefused, "create pod "+runner.Name, err)
	}
}

// checkExistingPod returns nil if the pod that already has the runner's name is its own, usually created by an earlier call
// whose answer was lost.
func (c *Controller) checkExistingPod(ctx context.Context, runner *v1alpha1.EphemeralRunner) error {
	pod := &corev1.Pod{}
	err := c.options.Reader.Get(ctx, client.ObjectKeyFromObject(runner), pod)
	switch {
	case err != nil:
		return podUnreadable(runner, err)
	case !metav1.IsControlledBy(pod, runner):
		return &failure{kind: failureNameTaken, reason: v1alpha1.ReasonPodNameTaken, message: fmt.Sprintf(
			"a pod %s exists that is not the runner's: another runner takes this one's place", runner.Name)}
	case pod.DeletionTimestamp != nil:
		return &failure{reason: v1alpha1.ReasonPodTerminating, message: fmt.Sprintf("the previous pod %s is still being deleted", runner.Name)}
	default:
		return nil
	}
}

// notRegistered returns what keeps a runner from being registered, and what happens next.
func notRegistered(err error) *failure {
	f := registrationFailure(err)
	switch f.reason {
	case v1alpha1.ReasonScaleSetNotFound:
		f.message += "; the manager recreates the scale set: see the AutoscalingRunnerSet"
	case v1alpha1.ReasonRegistrationFailed:
		f.message += "; it is retried" + whatToCheck(err)
	}
	return f
}

// whatToCheck returns advice according to who has answered: GitHub, something in front of it, or nobody. An error that
// occurred before GitHub was asked already says what to do.
func whatToCheck(err error) string {
	_, answered := errors.AsType[*actions.Error](err)
	_, unexpected := errors.AsType[*actions.UnexpectedResponseError](err)
	_, unreached := errors.AsType[*actions.NetworkError](err)
	switch {
	case actions.IsRejected(err):
		return "; correct what GitHub names"
	case answered || unexpected || unreached:
		return "; if it keeps failing, check proxy and githubConfigUrl of the AutoscalingRunnerSet"
	}
	return ""
}

// registrationFailure returns why a call about a runner's registration failed.
func registrationFailure(err error) *failure {
	f := &failure{reason: v1alpha1.ReasonRegistrationFailed, message: err.Error(), allowedAt: actions.RetryAt(err, time.Time{})}
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	_, insecure := errors.AsType[*actions.InsecureRedirectError](err)
	refusal, refused := actions.RefusalOf(err)
	switch {
	case limited:
		f.reason = v1alpha1.ReasonRateLimited
	case credentials.Reason(err) == v1alpha1.ReasonAddressNotAllowed:
		f.reason = v1alpha1.ReasonAddressNotAllowed
	case insecure:
		f.reason = v1alpha1.ReasonInsecureRedirect
	case refused:
		f.reason = string(refusal.Class)
	case errors.Is(err, actions.ErrScaleSetNotFound):
		f.reason = v1alpha1.ReasonScaleSetNotFound
	case credentials.IsVaultNotAllowed(err):
		f.reason = v1alpha1.ReasonVaultNotAllowed
	case credentials.Gone(err):
		f.reason = v1alpha1.ReasonCredentialsMissing
	}
	return f
}
