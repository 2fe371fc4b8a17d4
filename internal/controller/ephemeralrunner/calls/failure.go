package calls

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Failure says why a call did not do what it should. It is an error.
type Failure struct { //nolint:errname // it is what the rules decide on; that it is an error only carries it out of the pool
	Kind            Kind
	Reason, Message string
	// AllowedAt is when GitHub allows the next request, zero if it did not say.
	AllowedAt time.Time
}

func (f *Failure) Error() string { return f.Message }

// Kind says what follows from a failure.
type Kind int

const (
	// Temporary: try again later.
	Temporary Kind = iota
	// Away: the same, because the API server is away.
	Away
	// Invalid: the pod or Secret can't be created as the template has it.
	Invalid
	// NameTaken: a runner of another scale set, or somebody else's pod or Secret, has the name.
	NameTaken
	// Closed: the namespace or the runner is being deleted, so nothing can be created for it any more.
	Closed
	// Busy: GitHub says that the runner has a job.
	Busy
	// NotFound: the answer was that there is no such registration, but it may not have come from GitHub itself.
	NotFound
)

// RequestFailure returns the failure of a request that will be repeated. The reason is for one that the API server has answered.
func RequestFailure(reason, request string, err error) *Failure {
	f := &Failure{Reason: reason, Message: fmt.Sprintf("%s: %v", request, err)}
	if kube.IsUnanswered(err) {
		f.Kind, f.Reason = Away, v1alpha1.ReasonAPIServerUnavailable
	}
	return f
}

// DeletionFailure returns nil for errors of a deletion that leave nothing to do for the runner: the object is gone (NotFound) or
// is another one (Conflict). While the runner is being deleted Forbidden counts too: Helm has taken the permission away, and
// garbage collection deletes the object, which the runner owns. As long as the runner stays, nothing is collected; the API
// server may just have started and not loaded its Roles yet, so the deletion is retried.
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

// NotRegistered returns what keeps a runner from being registered, and what happens next.
func NotRegistered(err error) *Failure {
	f := RegistrationFailure(err)
	switch f.Reason {
	case v1alpha1.ReasonScaleSetNotFound:
		f.Message += "; the manager recreates the scale set: see the AutoscalingRunnerSet"
	case v1alpha1.ReasonRegistrationFailed:
		f.Message += "; it is retried" + whatToCheck(err)
	}
	return f
}

// NotRemoved returns why a registration could not be removed, nil if it was.
func NotRemoved(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, actions.ErrJobStillRunning):
		return &Failure{Kind: Busy, Reason: "JobRunning", Message: "GitHub does not remove the runner while it runs a job"}
	default:
		f := RegistrationFailure(err)
		f.Message = fmt.Sprintf("remove the registration: %s", f.Message)
		if errors.Is(err, actions.ErrRunnerNotFound) {
			f.Kind = NotFound
		}
		return f
	}
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

// RegistrationFailure returns why a call about a runner's registration failed.
func RegistrationFailure(err error) *Failure {
	f := &Failure{Reason: v1alpha1.ReasonRegistrationFailed, Message: err.Error(), AllowedAt: actions.RetryAt(err, time.Time{})}
	_, limited := errors.AsType[*actions.RateLimitedError](err)
	_, insecure := errors.AsType[*actions.InsecureRedirectError](err)
	refusal, refused := actions.RefusalOf(err)
	switch {
	case limited:
		f.Reason = v1alpha1.ReasonRateLimited
	case credentials.Reason(err) == v1alpha1.ReasonAddressNotAllowed:
		f.Reason = v1alpha1.ReasonAddressNotAllowed
	case insecure:
		f.Reason = v1alpha1.ReasonInsecureRedirect
	case refused:
		f.Reason = string(refusal.Class)
	case errors.Is(err, actions.ErrScaleSetNotFound):
		f.Reason = v1alpha1.ReasonScaleSetNotFound
	case credentials.IsVaultNotAllowed(err):
		f.Reason = v1alpha1.ReasonVaultNotAllowed
	case credentials.Gone(err):
		f.Reason = v1alpha1.ReasonCredentialsMissing
	}
	return f
}
