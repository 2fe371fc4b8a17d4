package ephemeralrunner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// An idle runner that is evicted, or whose pod reaches its deadline, day after day has nothing wrong with it: each of these
// failures starts a new count. Failures that come at once add up until the runner has failed.
func TestDisruptionsOfARunnerThatWasUpDoNotAddUp(t *testing.T) {
	for name, test := range map[string]struct {
		up     bool
		slow   bool // GitHub, when it is asked to remove the registration
		failed bool
	}{"after long": {up: true}, "at once": {failed: true}, "at once, GitHub is slow": {slow: true, failed: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				for range 2 * len(retryBackoff) {
					f.settle()
					if f.runner().Status.Done() {
						break
					}
					f.setPod(runs)
					f.settle()
					if test.up {
						f.elapse(upAfter)
					}
					answered := make(chan struct{})
					f.github.holdRemove = answered
					f.setPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed; evicted(p) })
					f.settle()
					if test.slow {
						f.elapse(2 * upAfter)
					}
					close(answered)
					f.settle()
					f.elapse(retryBackoff[len(retryBackoff)-1])
				}
				f.settle()
				status := f.runner().Status
				if failed := status.Phase == v1alpha1.EphemeralRunnerPhaseFailed; failed != test.failed || test.up && len(status.Failures) != 1 {
					t.Errorf("phase %s, failures %v", status.Phase, status.Failures)
				}
			}, newRunner())
		})
	}
}
