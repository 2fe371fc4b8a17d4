package manager

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// A message names at most namedSets scale sets; it only counts the rest.
const namedSets = 20

// ScaleSetsLeftError says that scale sets are left, which only a running manager can delete properly.
type ScaleSetsLeftError struct {
	// Names are NAMESPACE/NAME.
	Names []string
	// Deleting is set when all of them are being deleted.
	Deleting bool
}

// Error names the scale sets and the next step.
func (e *ScaleSetsLeftError) Error() string {
	names, more := e.Names, ""
	if len(names) > namedSets {
		names, more = names[:namedSets], fmt.Sprintf(" and %d more", len(e.Names)-namedSets)
	}
	next := "Uninstall their releases first (helm uninstall NAME --namespace NAMESPACE, or kubectl delete " +
		"autoscalingrunnerset), wait until they are gone, then repeat"
	if e.Deleting {
		next = "All of them are being deleted, and busy runners finish their jobs first (kubectl get " +
			"ephemeralrunners --all-namespaces): wait until they are gone, then repeat"
	}
	return fmt.Sprintf("%d scale set(s) are left: %s%s. Without the controller nothing would remove their runners "+
		"and registrations on GitHub. %s; helm uninstall --no-hooks skips this check. To keep the controller, run "+
		"helm rollback to its last revision: Helm now considers the release to be uninstalling",
		len(e.Names), strings.Join(names, ", "), more, next)
}

const (
	// The check gives up after answerTimeout without an answer. Its Role is created only just before it starts, and
	// until an API server's own watch has delivered a new Role, it answers 403. Helm would treat that as a failed
	// check.
	answerTimeout = 30 * time.Second
	// The check gives up scale sets that are being deleted after deletionTimeout: helm uninstall of a scale set returns
	// seconds before it is gone. Together with answerTimeout and a minute to pull the image, it stays within the
	// check's activeDeadlineSeconds, 180 in the chart.
	deletionTimeout = 90 * time.Second
)

// checkUninstall fails with *ScaleSetsLeftError if there is an AutoscalingRunnerSet in the namespace ("" means all). If
// all of them are being deleted, it first waits until they are gone, for deletionTimeout at most.
func checkUninstall(ctx context.Context, reader client.Reader, namespace string) error {
	left := &ScaleSetsLeftError{}
	err := wait.PollUntilContextTimeout(
		ctx, time.Second, deletionTimeout, true,
		func(ctx context.Context) (bool, error) {
			sets, err := listScaleSets(ctx, reader, namespace)
			if err != nil {
				return false, fmt.Errorf("list AutoscalingRunnerSets: %w", err)
			}
			left = leftOf(sets.Items)
			return !left.Deleting, nil
		},
	)
	if len(left.Names) > 0 {
		return left
	}
	return err
}

func leftOf(sets []v1alpha1.AutoscalingRunnerSet) *ScaleSetsLeftError {
	left := &ScaleSetsLeftError{Deleting: len(sets) > 0}
	for i := range sets {
		left.Names = append(left.Names, sets[i].Namespace+"/"+sets[i].Name)
		left.Deleting = left.Deleting && sets[i].DeletionTimestamp != nil
	}
	return left
}

// listScaleSets asks until it gets an answer, for answerTimeout at most. If the kind isn't installed, there are no
// scale sets.
func listScaleSets(
	ctx context.Context, reader client.Reader, namespace string,
) (*v1alpha1.AutoscalingRunnerSetList, error) {
	sets := new(v1alpha1.AutoscalingRunnerSetList)
	var refused error
	err := wait.PollUntilContextTimeout(ctx, time.Second, answerTimeout, true, func(ctx context.Context) (bool, error) {
		refused = reader.List(ctx, sets, client.InNamespace(namespace))
		if apierrors.IsNotFound(refused) {
			refused = nil
		}
		return refused == nil, nil
	})
	if refused != nil {
		return nil, refused
	}
	return sets, err
}
