package manager

import (
	"context"
	"errors"
	"fmt"
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

func TestCheckUninstallNamesWhatIsLeft(t *testing.T) {
	cluster := fake.NewClientBuilder().WithScheme(kinds.Scheme()).Build()
	if err := checkUninstall(t.Context(), cluster, ""); err != nil {
		t.Errorf("without scale sets: %v", err)
	}
	for i := range namedSets + 2 {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Namespace, set.Name = "runners", fmt.Sprintf("set-%02d", i)
		if err := cluster.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	err := checkUninstall(t.Context(), cluster, "")
	for _, part := range []string{
		"22 scale set(s)", "runners/set-00", "runners/set-19", "and 2 more", "helm uninstall NAME",
	} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v doesn't say %q", err, part)
		}
	}
	if err := checkUninstall(t.Context(), cluster, "elsewhere"); err != nil {
		t.Errorf("scale sets of a namespace that isn't ours to watch: %v", err)
	}
}

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
