// Package podtrial knows what a dry run of a pod tells before the pod exists: which pod the container hooks of a runner
// make for a job, what the API server's answer means, and what has become of the pod on its way through policies. It is
// pure; the manager asks before the first job, and kubectl harrier check before an installation.
package podtrial

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Refuses returns the reason if the answer to a dry run means that no such pod is admitted until somebody changes
// something. The answer means nothing if the API server, or a webhook, could not decide: it is away, busy or starting,
// who asks may not create pods, or a webhook can't do dry runs, which is the only bad request that says nothing about
// the pod.
func Refuses(err error) (reason string, refuses bool) {
	var answer apierrors.APIStatus
	switch {
	case errors.Is(err, ErrTemplate):
		return v1alpha1.ReasonInvalidPod, true
	case !errors.As(err, &answer), kube.IsNamespaceTerminating(err), kube.IsQuotaExceeded(err),
		kube.IsDeniedByAuthorizer(err), WithoutDryRun(err):
		return "", false
	}
	switch status := answer.Status(); status.Code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return "", false
	case http.StatusUnauthorized: // a policy may answer so, and then names the pod
		return v1alpha1.ReasonPodForbidden, status.Details != nil && status.Details.Name != ""
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return v1alpha1.ReasonInvalidPod, true
	default:
		return v1alpha1.ReasonPodForbidden, status.Code >= http.StatusBadRequest &&
			status.Code < http.StatusInternalServerError
	}
}

// WithoutDryRun reports whether a webhook can't do dry runs. A webhook that denies the pod may answer with the same
// code, but hardly with the same reason.
func WithoutDryRun(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonBadRequest
}
