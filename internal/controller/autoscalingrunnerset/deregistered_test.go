package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// The annotations say that the deregistration is over before the status does, which may be late, or fail.
func TestScaleSetIsDeletedOnceThoughTheStatusIsLate(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.deletable()
		f.drained()
		f.intercept.SubResourcePatch = func(
			ctx context.Context, c client.Client, resource string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			if set, ok := object.(*v1alpha1.AutoscalingRunnerSet); ok && set.Status.Registration == nil {
				return errors.New("timeout")
			}
			return c.SubResource(resource).Patch(ctx, object, patch, options...)
		}
		for range 3 {
			f.restart()
			// errors are the point of it
			_, _ = f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey})
			controllertest.Elapse(2 * time.Second)
			_, _ = f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: setKey})
		}
		f.intercept.SubResourcePatch = nil
		f.restart()
		f.settle()
		if diff := cmp.Diff([]string{"delete 1"}, f.github.Made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if f.set().Status.Registration != nil {
			t.Error("the registration stands after the deregistration; the listener would keep its Secrets")
		}
	})
}
