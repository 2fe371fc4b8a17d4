package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// These tests are inside of the package: time passes for them in bubbles, which have no network.

// helm uninstall of a scale set returns while its finalizers are still being worked on, and the controller's is typed
// next.
func TestCheckUninstallWaitsForWhatIsBeingDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		questions int // the set is gone after so many
		want      string
	}{"gone after a while": {20, ""}, "busy": {1000, "All of them are being deleted"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				going := &v1alpha1.AutoscalingRunnerSet{}
				going.Namespace, going.Name, going.Finalizers = "runners", "going",
					[]string{v1alpha1.FinalizerAutoscalingRunnerSet}
				asked := 0
				cluster := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(going).WithInterceptorFuncs(
					interceptor.Funcs{
						List: func(
							ctx context.Context, api client.WithWatch, list client.ObjectList,
							options ...client.ListOption,
						) error {
							if asked++; asked == test.questions {
								released := client.RawPatch(
									types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
								)
								if err := api.Patch(ctx, going, released); err != nil {
									t.Error(err)
								}
							}
							return api.List(ctx, list, options...)
						},
					},
				).Build()
				if err := cluster.Delete(t.Context(), going); err != nil {
					t.Fatal(err)
				}
				err := checkUninstall(t.Context(), cluster, "")
				if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
					t.Errorf("got %v after %d questions, want %q", err, asked, test.want)
				}
			})
		})
	}
}

// Helm creates the check's Role and starts the check immediately, but an API server gets Roles by a watch.
func TestCheckUninstallWaitsForItsRights(t *testing.T) {
	for name, test := range map[string]struct {
		refusals int
		want     bool
	}{"a moment": {3, true}, "forever": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				forbidden := apierrors.NewForbidden(
					schema.GroupResource{Resource: "autoscalingrunnersets"}, "", errors.New("no Role"),
				)
				asked := 0
				cluster := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
					List: func(
						ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption,
					) error {
						if asked++; asked <= test.refusals {
							return forbidden
						}
						return api.List(ctx, list, options...)
					},
				}).Build()
				if err := checkUninstall(t.Context(), cluster, ""); test.want != (err == nil) ||
					(err != nil && !errors.Is(err, forbidden)) {
					t.Errorf("got %v after %d questions", err, asked)
				}
			})
		})
	}
}
