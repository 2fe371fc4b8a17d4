package manager

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// namedSets is how many scale sets a message names before it only counts the rest.
const namedSets = 20

// ScaleSetsLeftError says that scale sets are left which only a running manager can delete properly.
type ScaleSetsLeftError struct {
	// Names are NAMESPACE/NAME.
	Names []string
}

// Error names them and the next step.
func (e *ScaleSetsLeftError) Error() string {
	names, more := e.Names, ""
	if len(names) > namedSets {
		names, more = names[:namedSets], fmt.Sprintf(" and %d more", len(e.Names)-namedSets)
	}
	return fmt.Sprintf("%d scale set(s) are left: %s%s. Without the controller nothing would remove their runners and registrations on GitHub. "+
		"Uninstall their releases first (helm uninstall NAME --namespace NAMESPACE, or kubectl delete autoscalingrunnerset), wait until they are gone, then repeat; "+
		"helm uninstall --no-hooks skips this check. To keep the controller instead, helm rollback its release to its last revision: Helm takes it for half uninstalled now", len(e.Names), strings.Join(names, ", "), more)
}

// checkUninstall fails with *ScaleSetsLeftError while there is an AutoscalingRunnerSet in the namespace, "" being all.
func checkUninstall(ctx context.Context, reader client.Reader, namespace string) error {
	sets := new(v1alpha1.AutoscalingRunnerSetList)
	err := reader.List(ctx, sets, client.InNamespace(namespace))
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil // the kind is not installed, so there are none
	}
	if err != nil {
		return fmt.Errorf("list AutoscalingRunnerSets: %w", err)
	}
	if len(sets.Items) == 0 {
		return nil
	}
	left := &ScaleSetsLeftError{}
	for i := range sets.Items {
		left.Names = append(left.Names, sets.Items[i].Namespace+"/"+sets.Items[i].Name)
	}
	return left
}
