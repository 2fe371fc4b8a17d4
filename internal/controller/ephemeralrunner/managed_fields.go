package ephemeralrunner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The record of who wrote which field of a pod (managedFields) is more than a third of it. It makes each report of the pod's
// node twice as expensive for the API server, and it delays the watch of pods: a busy API server on two cores was seen to read
// only about 300 changes of pods, 2 MB, a second from etcd, and each runner causes six (docs/performance.md says why).
// The patch that writes the job on a pod also drops the record (see podPatch). In a large burst that patch comes too late or
// never, so there the record is dropped by a patch of its own, which costs 1.5 ms of CPU and saves twice as much.
const (
	// smallBurst is how many pods can be created at once without that patch: as many as the pool creates at a time. A runner
	// of a small burst gets all other writes of its life, eleven, and may have twelve.
	smallBurst = 128
	// steadyPods is how many can be created a second without it. At 30 ms each they leave half of two CPUs idle, so that
	// watches are on time.
	steadyPods = 25
	// untrackTimeout bounds the patch, because what becomes of the pod is only handled after it.
	untrackTimeout = 5 * time.Second
)

// newPodAllowance returns the limiter that accepts pods as long as they are few.
func newPodAllowance(clk clock.PassiveClock) flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(steadyPods, smallBurst, clk)
}

// untrack drops managedFields from a pod that was just created, if it is one of many. If that fails, the pod is only more
// expensive than necessary.
func (c *Controller) untrack(ctx context.Context, pod *corev1.Pod) {
	if c.podAllowance.TryAccept() || !c.options.JobMetadata || c.options.Clock.Now().Before(c.forbiddenUntil(pod.Namespace)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, untrackTimeout)
	defer cancel()
	if err := c.patchPod(ctx, pod, nil, nil); err != nil {
		log.FromContext(ctx).V(1).Info("The pod keeps its managedFields", "cause", err.Error())
	}
}
