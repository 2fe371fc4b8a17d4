package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/runnerversion"
)

// Deregister has GitHub remove the runner's registration, in the pool; it does nothing while that is under way. Consent
// proves that the runner will not get a job. certain says that the id comes from the runner's own pod, or that this
// process has registered the runner: otherwise only its status says so, and GitHub is asked for the registration by the
// runner's name. A runner of which nothing is certain, and that no set counts, has no registration.
func (l *Launcher) Deregister(runner *v1alpha1.EphemeralRunner, id int, certain bool, memory *Memory) {
	runner = runner.DeepCopy() // the call outlasts the pass, which may go on to write the runner's status
	start(l, &memory.removal, runner, func(ctx context.Context) (struct{}, error) {
		if !certain {
			if counted, err := l.options.Counted(ctx, runner); err != nil || !counted {
				return struct{}{}, notRemoved(err)
			}
		}
		github, err := l.options.GitHub(ctx, credentials.ForEphemeralRunner(runner))
		if err != nil {
			return struct{}{}, registrationFailure(err)
		}
		l.seeVersion(ctx, github, runner)
		found, err := registrationOf(ctx, github, runner, id, certain)
		if err == nil && found != 0 {
			err = github.RemoveRunner(ctx, found)
		}
		return struct{}{}, notRemoved(err)
	})
}

// seeVersion reads the version in GitHub's record of a runner that GitHub has refused, before the record goes, if the
// runner's image doesn't name it. It is for the message only: without an answer there is none.
func (l *Launcher) seeVersion(ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner) {
	_, named := runnerversion.OfImage(kube.Image(&runner.Spec.PodSpec, v1alpha1.RunnerContainerName))
	if named || l.options.SeeVersion == nil || runner.Status.Phase != v1alpha1.EphemeralRunnerPhaseOutdated {
		return
	}
	if found, err := github.GetRunnerByName(ctx, runner.Name); err == nil && found.Version != "" &&
		found.RunnerScaleSetID == runner.Spec.RunnerScaleSetID {
		l.options.SeeVersion(runner, found.Version)
	}
}

// resolveConflict frees a name that is taken, or returns the registration that the runner's pod uses. Usually the
// runner itself has the name: the answer to an earlier call was lost, or the manager was restarted. Its Secret may
// exist, but only GitHub can tell whether a container has started with it. If GitHub agrees to remove the registration,
// it has no job; if GitHub refuses, its job has lost the pod.
func (l *Launcher) resolveConflict(
	ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner, taken error,
) (*registration, error) {
	holder, err := github.GetRunnerByName(ctx, runner.Name)
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return nil, &rules.Failure{Reason: v1alpha1.ReasonRunnerNameTaken, Message: fmt.Sprintf(
			"%v, yet GitHub finds no runner named %s: trying again", taken, runner.Name)}
	case err != nil:
		return nil, notRegistered(err)
	case holder.RunnerScaleSetID != runner.Spec.RunnerScaleSetID:
		return nil, &rules.Failure{Kind: rules.NameTaken, Reason: v1alpha1.ReasonRunnerNameTaken, Message: fmt.Sprintf(
			"runner %s exists on GitHub in scale set %d: another runner takes this one's place", runner.Name,
			holder.RunnerScaleSetID)}
	}
	if used, err := l.usedRegistration(ctx, runner, holder.ID); err != nil || used != nil {
		return used, err
	}
	err = github.RemoveRunner(ctx, holder.ID)
	if errors.Is(err, actions.ErrRunnerNotFound) {
		return nil, nil // no pod could have a job; asking for a registration shows whether the name is free
	}
	return nil, notRemoved(err)
}

// usedRegistration returns the registration with that id if the runner's pod was created with it, otherwise nil. It
// asks the API server: a stale cache does not show a pod that another manager created just before it stopped, and that
// pod may have a job by now.
func (l *Launcher) usedRegistration(
	ctx context.Context, runner *v1alpha1.EphemeralRunner, id int,
) (*registration, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	pod, err := OwnPod(ctx, l.options.Reader, runner)
	switch {
	case err != nil:
		return nil, podUnreadable(runner, err)
	case pod == nil || pod.DeletionTimestamp != nil || RunnerIDOf(pod, id) != id:
		return nil, nil
	default:
		return &registration{id: id, stored: true}, nil
	}
}

// registrationOf returns the id of the registration that the runner has on GitHub, 0 if it has none or certainly none
// of its own. An id that isn't certain may be a copy of another runner's or from another time: then the registration is
// that of the runner's name, which nobody else gets here.
func registrationOf(
	ctx context.Context, github GitHub, runner *v1alpha1.EphemeralRunner, known int, certain bool,
) (int, error) {
	if certain && known != 0 {
		return known, nil
	}
	found, err := github.GetRunnerByName(ctx, runner.Name)
	if err != nil || found.RunnerScaleSetID != runner.Spec.RunnerScaleSetID {
		return 0, err
	}
	return found.ID, nil
}

// notRegistered says what keeps a runner from being registered, and what happens next.
func notRegistered(err error) *rules.Failure {
	f := registrationFailure(err)
	next := causes.Of(err).Next()
	if next == "" && f.Reason == v1alpha1.ReasonRegistrationFailed {
		next = "; it is tried again"
	}
	f.Message += next
	return f
}

// notRemoved says why a registration could not be removed, nil if it was.
func notRemoved(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, actions.ErrJobStillRunning):
		return &rules.Failure{
			Kind:    rules.Busy,
			Reason:  "JobRunning",
			Message: "GitHub does not remove the runner while it runs a job",
		}
	default:
		f := registrationFailure(err)
		f.Message = fmt.Sprintf("remove the registration: %s", f.Message)
		if errors.Is(err, actions.ErrRunnerNotFound) {
			f.Kind = rules.NotFound
		}
		return f
	}
}

// registrationFailure says why a call about a runner's registration failed. That GitHub is away, or refuses the call
// for a reason of its own, is the set's to say; of a runner it says that this one is not registered.
func registrationFailure(err error) *rules.Failure {
	cause := causes.Of(err)
	f := &rules.Failure{Reason: cause.Reason, Message: err.Error(), AllowedAt: cause.RetryAt}
	switch {
	case credentials.Gone(err):
		f.Reason = v1alpha1.ReasonCredentialsMissing
	case slices.Contains([]string{
		"", v1alpha1.ReasonGitHubUnavailable, v1alpha1.ReasonHostNotFound, v1alpha1.ReasonRefusedByGitHub,
	}, f.Reason):
		f.Reason = v1alpha1.ReasonRegistrationFailed
	}
	return f
}

// requestFailure returns the failure of a request that will be repeated. The reason is for one that the API server has
// answered.
func requestFailure(reason, request string, err error) *rules.Failure {
	f := &rules.Failure{Reason: reason, Message: fmt.Sprintf("%s: %v", request, err)}
	if kube.IsUnanswered(err) {
		f.Kind, f.Reason = rules.Away, v1alpha1.ReasonAPIServerUnavailable
	}
	return f
}

// DeletionFailure returns nil for errors of a deletion that leave nothing to do for the runner: the object is gone
// (NotFound) or is another one (Conflict). While the runner is being deleted Forbidden counts too: Helm has taken the
// permission away, and garbage collection deletes the object, which the runner owns. As long as the runner stays,
// nothing is collected; the API server may just have started and not loaded its Roles yet, so the deletion is retried.
func DeletionFailure(runner *v1alpha1.EphemeralRunner, what string, err error) error {
	switch {
	case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case apierrors.IsForbidden(err) && !runner.DeletionTimestamp.IsZero():
		return nil
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// checkExistingPod returns nil if the pod that already has the runner's name is its own, usually created by an earlier
// call whose answer was lost.
func (l *Launcher) checkExistingPod(ctx context.Context, runner *v1alpha1.EphemeralRunner) error {
	pod := &corev1.Pod{}
	err := l.options.Reader.Get(ctx, client.ObjectKeyFromObject(runner), pod)
	switch {
	case err != nil:
		return podUnreadable(runner, err)
	case !metav1.IsControlledBy(pod, runner):
		return &rules.Failure{Kind: rules.NameTaken, Reason: v1alpha1.ReasonPodNameTaken, Message: fmt.Sprintf(
			"a pod %s exists that is not the runner's: another runner takes this one's place", runner.Name)}
	case pod.DeletionTimestamp != nil:
		return &rules.Failure{
			Reason:  v1alpha1.ReasonPodTerminating,
			Message: fmt.Sprintf("the previous pod %s is still being deleted", runner.Name),
		}
	default:
		return nil
	}
}

func podUnreadable(runner *v1alpha1.EphemeralRunner, err error) *rules.Failure {
	return requestFailure("PodUnreadable", "read pod "+runner.Name, err)
}
