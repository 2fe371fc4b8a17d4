package autoscalingrunnerset

import (
	"context"
	"maps"
	"sync"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

const (
	// budgetsPeriod is how long the PodDisruptionBudgets of a namespace are taken for what they were, for all sets in it.
	budgetsPeriod = time.Minute
	// budgetsForbiddenPeriod replaces it if they may not be read, as with an older chart: each refusal is in somebody's audit log.
	budgetsForbiddenPeriod = 10 * time.Minute
	// budgetsPerPage and budgetPages limit how many are read, at 75 MB a page in the worst case; maxBudgetSize limits the spec of
	// each, in bytes. The others are not checked.
	budgetsPerPage, budgetPages, maxBudgetSize = 50, 4, 16 << 10
	// budgetsTimeout bounds the read. Nothing but a condition depends on it.
	budgetsTimeout = 5 * time.Second
	// budgetsGrace is how long a new set may be without its budget: whoever installs it may create the budget after the set.
	budgetsGrace = 30 * time.Second
	// budgetsRecent is how old a read may be for a set without its budget to be told: another set of the namespace may have asked for
	// it before the budget was there.
	budgetsRecent = time.Second
)

// namespaceBudgets are the PodDisruptionBudgets of a namespace at a time.
type namespaceBudgets struct {
	items []policyv1.PodDisruptionBudget
	// partial is set if there are more, so that one that is missing may be among them.
	partial bool
	// err is why they could not be read.
	err    error
	readAt time.Time
}

// staleAt returns when to read them again.
func (b namespaceBudgets) staleAt() time.Time {
	if apierrors.IsForbidden(b.err) {
		return b.readAt.Add(budgetsForbiddenPeriod)
	}
	return b.readAt.Add(budgetsPeriod)
}

// budgetMemory has what was last read, by namespace. The zero value is empty.
type budgetMemory struct {
	mu         sync.Mutex
	namespaces map[string]namespaceBudgets
}

func (m *budgetMemory) of(namespace string) namespaceBudgets {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.namespaces[namespace]
}

// store stores what was read, and forgets namespaces that nobody has asked about for long.
func (m *budgetMemory) store(namespace string, read namespaceBudgets) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.namespaces == nil {
		m.namespaces = map[string]namespaceBudgets{}
	}
	maps.DeleteFunc(m.namespaces, func(_ string, old namespaceBudgets) bool {
		return read.readAt.Sub(old.readAt) > 2*budgetsForbiddenPeriod
	})
	m.namespaces[namespace] = read
}

// readBudgets reads the PodDisruptionBudgets of the set's namespace, about once a minute for all of its sets. No failure of it
// holds anything else up.
func (c *Controller) readBudgets(ctx context.Context, p *pass) error {
	if p.set.Spec.ProtectRunners == v1alpha1.ProtectNoRunners {
		return nil
	}
	last := c.budgets.of(p.set.Namespace)
	if !p.now.Before(last.staleAt()) || last.err == nil && p.now.Sub(last.readAt) > budgetsRecent && newlyMissed(p, last) {
		ctx, cancel := context.WithTimeout(ctx, budgetsTimeout)
		defer cancel()
		last = c.listBudgets(ctx, p.set.Namespace)
		last.readAt = p.now
		if last.err != nil && !apierrors.IsForbidden(last.err) {
			ctrl.LoggerFrom(ctx).V(1).Info("Can't list PodDisruptionBudgets, trying again in a minute", "cause", last.err.Error())
		}
		c.budgets.store(p.set.Namespace, last)
	}
	p.requeue.After(last.staleAt().Sub(p.now))
	p.budgets = &last
	return nil
}

// newlyMissed reports whether the set's condition doesn't say yet that its budget is missing, and would.
func newlyMissed(p *pass, read namespaceBudgets) bool {
	condition := protectionCondition(&pass{set: p.set, now: p.now, budgets: &read})
	return condition != nil && condition.Reason == v1alpha1.ReasonNoDisruptionBudget &&
		!meta.IsStatusConditionTrue(p.set.Status.Conditions, v1alpha1.ConditionRunnersUnprotected)
}

// listBudgets returns what there is to know of the first budgets of a namespace. Anybody with rights there may create any number,
// of up to 1.5 MB each.
func (c *Controller) listBudgets(ctx context.Context, namespace string) (read namespaceBudgets) {
	page := policyv1.PodDisruptionBudgetList{}
	for range budgetPages {
		more := page.Continue
		page = policyv1.PodDisruptionBudgetList{}
		if err := c.options.Reader.List(ctx, &page, client.InNamespace(namespace), client.Limit(budgetsPerPage), client.Continue(more)); err != nil {
			return namespaceBudgets{err: err}
		}
		for i := range page.Items {
			if b := &page.Items[i]; b.Spec.Size() <= maxBudgetSize {
				part := map[string]string{v1alpha1.LabelPartOf: b.Labels[v1alpha1.LabelPartOf]}
				read.items = append(read.items, policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: b.Name, Labels: part}, Spec: b.Spec})
			}
		}
		if read.partial = page.Continue != ""; !read.partial {
			break
		}
	}
	return read
}

// protectionCondition returns nil if nothing new is known about the protection of the set's runners, or if nothing has ever been
// wrong with it.
func protectionCondition(p *pass) *metav1.Condition {
	const conditionType = v1alpha1.ConditionRunnersUnprotected
	before := meta.FindStatusCondition(p.set.Status.Conditions, conditionType)
	none := p.set.Spec.ProtectRunners == v1alpha1.ProtectNoRunners
	if !none && (p.budgets == nil || p.budgets.err != nil) {
		return nil
	}
	var condition metav1.Condition
	reason, message := "", ""
	if !none {
		reason, message = kube.Unprotected(p.set, p.budgets.items)
	}
	switch {
	case reason == v1alpha1.ReasonNoDisruptionBudget && (p.budgets.partial || p.now.Before(p.set.CreationTimestamp.Add(budgetsGrace))):
		return nil
	case reason != "":
		condition = report.True(conditionType, reason, message)
	case before == nil:
		return nil
	default:
		condition = report.False(conditionType, reasonProtected, "")
	}
	return &condition
}
