package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// failingOnce has a patch of the set that is not of its status fail each time that the result is set.
func (f *fixture) failingOnce() *bool {
	failing := false
	f.intercept.Patch = func(
		ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
	) error {
		if _, ok := o.(*v1alpha1.AutoscalingRunnerSet); ok && failing {
			failing = false
			return errors.New("etcd is away")
		}
		return c.Patch(ctx, o, p, opts...)
	}
	f.restart()
	return &failing
}

// failingPass runs a pass that has to fail, and waits for what it began.
func (f *fixture) failingPass() {
	f.Helper()
	if _, err := f.controller.Reconcile(f.Context(), ctrl.Request{NamespacedName: setKey}); err == nil {
		f.Fatal("the pass did not fail")
	}
	controllertest.Elapse(2 * time.Second)
}

// TestAPatchThatFailsLosesNoScaleSet: what the status no longer says, the annotations have to say first.
func TestAPatchThatFailsLosesNoScaleSet(t *testing.T) {
	for name, killed := range map[string]bool{"left before its answer was recorded": false,
		"killed when the answer could not be recorded": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				fail := f.failingOnce()
				f.running()
				f.move(newAddress)
				f.reconcile() // asked and answered, not recorded
				if len(f.github.Sets[newAddress]) != 1 {
					t.Fatal("not created")
				}
				if !killed {
					f.move(thirdAddress)
				}
				f.events()
				*fail = true
				f.failingPass()
				if killed {
					f.restart()
					f.move(thirdAddress)
				}
				f.settle()
				f.settle()
				told := strings.Contains(strings.Join(f.events(), "\n"),
					`Perhaps left on GitHub: scale set "set" at `+newAddress)
				if left := len(f.github.Sets[newAddress]) > 0; left != killed || told != killed {
					t.Errorf("journal %q, left on GitHub %t, told %t, want %t", f.journal(), left, told, killed)
				}
			})
		})
	}
}
