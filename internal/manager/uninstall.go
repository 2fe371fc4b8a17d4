package manager

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
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

// answerLimit is how long the check waits for an answer. What allows it to ask is made a moment before it is started, and
// until an API server has heard of a new Role, by a watch of its own, it answers 403. Helm would take that for a no.
const answerLimit = 30 * time.Second

// checkUninstall fails with *ScaleSetsLeftError while there is an AutoscalingRunnerSet in the namespace, "" being all.
func checkUninstall(ctx context.Context, reader client.Reader, namespace string) error {
	sets, err := listScaleSets(ctx, reader, namespace)
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

// listScaleSets asks until it is answered, answerLimit at most. Where the kind isn't installed there are none.
func listScaleSets(ctx context.Context, reader client.Reader, namespace string) (*v1alpha1.AutoscalingRunnerSetList, error) {
	sets := new(v1alpha1.AutoscalingRunnerSetList)
	var refused error
	err := wait.PollUntilContextTimeout(ctx, time.Second, answerLimit, true, func(context.Context) (bool, error) {
		refused = reader.List(ctx, sets, client.InNamespace(namespace))
		if apierrors.IsNotFound(refused) || meta.IsNoMatchError(refused) {
			refused = nil
		}
		return refused == nil, nil
	})
	if refused != nil {
		return nil, refused
	}
	return sets, err
}
