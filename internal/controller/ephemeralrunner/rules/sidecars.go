package rules

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// SidecarGracePeriod returns how long the other containers of the runner's pod may take to end after the runner.
func SidecarGracePeriod(spec *v1alpha1.RunnerTimeouts) time.Duration {
	if spec.SidecarGracePeriod != nil {
		return spec.SidecarGracePeriod.Duration
	}
	return v1alpha1.DefaultSidecarGracePeriod
}

// SidecarGrace returns the grace period, in seconds, with which to delete a pod whose runner has ended before its other
// containers. It returns false if the pod's own is as short, that of its deletion if it is being deleted, or if there is
// nobody to wait for. The pod's own is meant for the runner, whose job may need an hour; a sidecar that ignores SIGTERM
// would hold node, quota and volumes as long.
func SidecarGrace(runner *v1alpha1.EphemeralRunner, pod *corev1.Pod) (seconds int64, shorter bool) {
	if !podstatus.HasEnded(pod, v1alpha1.RunnerContainerName) || podstatus.IsFinished(pod) {
		return 0, false
	}
	own := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if pod.DeletionTimestamp != nil {
		own = ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
	}
	limit := SidecarSeconds(&runner.Spec.RunnerTimeouts)
	return limit, limit < own
}

// SidecarSeconds returns the same in whole seconds, as a grace period: 0 would not wait for the node.
func SidecarSeconds(spec *v1alpha1.RunnerTimeouts) int64 {
	return max(1, int64(SidecarGracePeriod(spec)/time.Second))
}
