package ephemeralrunnerset

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// listTimeout is how long the API server may take to list a set's runners. It leaves most of the minute that a pass has for
// what can be done without the answer, and for telling that there is none.
const listTimeout = 10 * time.Second

// countUnseen counts the set's runners that the watch has not shown. About those that it should have shown by now the API server
// is asked: while the watch is broken, or refused, they would be created again every minute, without end.
func (c *Controller) countUnseen(ctx context.Context, p *pass) error {
	creations := &p.state.creations
	creations.observe(p.views)
	var err error
	if overdue := creations.overdue(c.options.Clock.Now()); len(overdue) > 0 {
		var existing sets.Set[string]
		existing, err = c.existing(ctx, p.set)
		creations.noteListed(overdue, existing, err, c.options.Clock.Now())
	}
	p.unseen = creations.unseen(c.options.Clock.Now())
	return err
}

// existing returns the names of the set's runners that the API server has, those that are being deleted included. Runners with
// another owner or label are left out: the watch would not show them.
func (c *Controller) existing(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (sets.Set[string], error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var runners metav1.PartialObjectMetadataList
	runners.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EphemeralRunnerList"))
	err := c.options.Reader.List(ctx, &runners,
		client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelScaleSetName: kube.ScaleSetOf(set).Name})
	if err != nil {
		return nil, fmt.Errorf("list EphemeralRunners: %w", err)
	}
	names := sets.New[string]()
	for i := range runners.Items {
		if ownerOf(&runners.Items[i]).uid == set.UID {
			names.Insert(runners.Items[i].Name)
		}
	}
	return names, nil
}

// hasUnseen reports whether runners have not been seen that should have been, and which exist, or may.
func (c *creations) hasUnseen() bool { return c.listErr != nil || len(c.late) > 0 }

// unseenCondition returns the condition that says so, and why no runners are made in their place.
func (c *creations) unseenCondition(namespace string) metav1.Condition {
	if c.listErr != nil {
		return kube.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersUnseen, fmt.Sprintf(
			"runners that were created in namespace %s over %s ago have not been seen, and whether they exist cannot be found out, so none are made in their place: %s",
			namespace, expectationTimeout, kube.WithAdvice(c.listErr)))
	}
	return kube.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersUnseen, fmt.Sprintf(
		"%d runners that were created in namespace %s over %s ago exist, but the manager's watch of EphemeralRunners does not show them, so nothing is done for them, and none are made in their place; the manager's log says what keeps it from watching",
		len(c.late), namespace, expectationTimeout))
}

// unseenWhileDeleted returns the condition for a set that is being deleted. Of the causes of Degraded a deleted set waits only for this
// one, so only this one is set and cleared.
func (c *creations) unseenWhileDeleted(set *v1alpha1.EphemeralRunnerSet) []metav1.Condition {
	if c.hasUnseen() {
		return []metav1.Condition{c.unseenCondition(set.Namespace)}
	}
	told := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionDegraded)
	if told == nil || told.Reason != v1alpha1.ReasonRunnersUnseen {
		return nil
	}
	return []metav1.Condition{kube.False(v1alpha1.ConditionDegraded, "RunnersSeen", "the runners that were created last have been seen, or do not exist")}
}
