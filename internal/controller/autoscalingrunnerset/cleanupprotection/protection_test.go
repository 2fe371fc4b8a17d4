package cleanupprotection_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/cleanupprotection"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// ARC's chart leaves the "_" of a scale set's name in the names of its Roles and RoleBindings, which the API server
// accepts. The client refuses to send requests for the other two names, which must not block a deletion.
func TestEachObjectThatCanBeAskedForIsStripped(t *testing.T) {
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{
			v1alpha1.AnnotationCleanupPrefix + "github-secret-name":   "../../x",
			v1alpha1.AnnotationCleanupPrefix + "manager-role-name":    " ",
			v1alpha1.AnnotationCleanupPrefix + "manager-role-binding": " linux_x64-gha-rs-manager ",
		},
	}}
	var patched []string
	kubernetes := interceptor.NewClient(controllertest.NewKubernetes().Build(), interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption,
		) error {
			patched = append(patched, object.GetName())
			return nil
		},
	})
	_, err := (&cleanupprotection.Remover{Client: kubernetes, Permitted: true}).StripLast(t.Context(), set)
	if err != nil || len(patched) != 1 || patched[0] != "linux_x64-gha-rs-manager" {
		t.Errorf("requests about %q, %v, want the one that can be there", patched, err)
	}
}

func TestObjectThatCannotBeStrippedIsNamedByItsKind(t *testing.T) {
	kubernetes := interceptor.NewClient(controllertest.NewKubernetes().Build(), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("away")
		},
	})
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "arc-runners", Name: "set",
		Annotations: map[string]string{v1alpha1.AnnotationCleanupPrefix + "github-secret-name": "github"},
	}}
	const want = "strip actions.github.com/cleanup-protection from Secret arc-runners/github: away"
	_, err := (&cleanupprotection.Remover{Client: kubernetes, Permitted: true}).StripLast(t.Context(), set)
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
