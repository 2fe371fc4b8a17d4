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
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// listTimeout is how long the API server may take to list a set's runners. It leaves most of a pass's minute for what can be
// done without the answer, and for reporting that there is none.
const listTimeout = 10 * time.Second

// countUnseen counts the set's runners that the watch has not shown. It asks the API server about runners that should have
// been seen by now: if the watch is broken or refused, they would otherwise be created again every minute, without end.
func (c *Controller) countUnseen(ctx context.Context, p *pass) error {
	creations := &p.state.creations
	creations.observe(p.views)
	var err error
	if overdue := creations.overdue(c.options.Clock.Now()); len(overdue) > 0 {
		var existing sets.Set[string]
		existing, err = c.existing(ctx, p)
		creations.noteListed(overdue, existing, err, c.options.Clock.Now())
	}
	p.unseen = creations.unseen(c.options.Clock.Now())
	return err
}

// existing returns the names of the set's runners that the API server has, including those being deleted. Runners with
// another owner or label are left out: the watch would not show them.
func (c *Controller) existing(ctx context.Context, p *pass) (sets.Set[string], error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var runners metav1.PartialObjectMetadataList
	runners.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EphemeralRunnerList"))
	err := c.options.Reader.List(ctx, &runners,
		client.InNamespace(p.set.Namespace), client.MatchingLabels{v1alpha1.LabelScaleSetName: p.scaleSetName()})
	if err != nil {
		return nil, fmt.Errorf("list EphemeralRunners: %w", err)
	}
	names := sets.New[string]()
	for i := range runners.Items {
		if ownerOf(&runners.Items[i]).uid == p.set.UID {
			names.Insert(runners.Items[i].Name)
		}
	}
	return names, nil
}

// hasUnseen reports whether overdue runners exist, or may exist.
func (c *creations) hasUnseen() bool { return c.listErr != nil || len(c.late) > 0 }

// unseenCondition returns the condition that says so, and why these runners are not replaced.
func (c *creations) unseenCondition(namespace string) metav1.Condition {
	if c.listErr != nil {
		return report.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersUnseen, fmt.Sprintf(
			"runners created in namespace %s more than %s ago have not appeared, and the API server can't be asked whether they exist, so they are not replaced: %s",
			namespace, expectationTimeout, report.WithAdvice(c.listErr)))
	}
	return report.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnersUnseen, fmt.Sprintf(
		"%d runners created in namespace %s more than %s ago exist, but the manager's watch of EphemeralRunners does not show them, so they are neither served nor replaced; the manager's log says why the watch fails",
		len(c.late), namespace, expectationTimeout))
}

// unseenWhileDeleted returns the condition for a set that is being deleted. Of all causes of Degraded, only this one keeps a
// deleted set waiting, so only this one is set and cleared.
func (c *creations) unseenWhileDeleted(set *v1alpha1.EphemeralRunnerSet) []metav1.Condition {
	if c.hasUnseen() {
		return []metav1.Condition{c.unseenCondition(set.Namespace)}
	}
	reported := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionDegraded)
	if reported == nil || reported.Reason != v1alpha1.ReasonRunnersUnseen {
		return nil
	}
	return []metav1.Condition{report.False(v1alpha1.ConditionDegraded, "RunnersSeen", "the runners created last have been seen, or do not exist")}
}
