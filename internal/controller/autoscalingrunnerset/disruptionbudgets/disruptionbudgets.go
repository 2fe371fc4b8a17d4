// Package disruptionbudgets finds out whether the runners of a set are protected by their PodDisruptionBudget, about
// every minute for all sets of a namespace, and says so in the condition RunnersUnprotected. Nothing but that condition
// depends on it.
package disruptionbudgets

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
	// The PodDisruptionBudgets of a namespace are read every readInterval, for all sets in it.
	readInterval = time.Minute
	// forbiddenBackoff replaces it if they may not be read, as with an older chart: each refusal is in somebody's audit
	// log.
	forbiddenBackoff = 10 * time.Minute
	// perPage and mostPages limit the number that is read, at 75 MB a page in the worst case; maxSize limits the spec of
	// each, in bytes. The others are not checked.
	perPage, mostPages, maxSize = 50, 4, 16 << 10
	// readTimeout bounds the read.
	readTimeout = 5 * time.Second
	// A new set may be without its budget for newSetGrace: whoever installs it may create the budget after the set.
	newSetGrace = 30 * time.Second
	// A set without its budget is told so only from a read that is younger than recentRead: another set of the
	// namespace may have asked for it before the budget existed.
	recentRead = time.Second
)

// Budgets are the PodDisruptionBudgets of a namespace at a time, as far as they could be read.
type Budgets struct {
	items []policyv1.PodDisruptionBudget
	// partial is set if there are more than were read: a budget that seems to be missing may be among the others.
	partial bool
	// err says why they could not be read.
	err    error
	readAt time.Time
}

// staleAt returns the time to read them again.
func (b Budgets) staleAt() time.Time {
	if apierrors.IsForbidden(b.err) {
		return b.readAt.Add(forbiddenBackoff)
	}
	return b.readAt.Add(readInterval)
}

// Reader reads the budgets, and remembers them by namespace.
type Reader struct {
	api        client.Reader
	mu         sync.Mutex
	namespaces map[string]Budgets
}

// NewReader returns a Reader that reads from the API server.
func NewReader(api client.Reader) *Reader {
	return &Reader{api: api, namespaces: map[string]Budgets{}}
}

// Read returns the PodDisruptionBudgets of the set's namespace, which it reads about every minute for all of its sets,
// and the time until the next read. It returns nil for a set that wants no protection. No failure of it holds anything
// else up.
func (r *Reader) Read(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, now time.Time,
) (read *Budgets, freshFor time.Duration) {
	if set.Spec.ProtectRunners == v1alpha1.ProtectNoRunners {
		return nil, 0
	}
	r.mu.Lock()
	last := r.namespaces[set.Namespace]
	r.mu.Unlock()
	if !now.Before(last.staleAt()) || (last.err == nil && now.Sub(last.readAt) > recentRead &&
		newlyMissed(set, &last, now)) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		last = r.list(ctx, set.Namespace)
		last.readAt = now
		if last.err != nil && !apierrors.IsForbidden(last.err) {
			ctrl.LoggerFrom(ctx).V(1).Info("Can't list PodDisruptionBudgets, trying again in a minute", "cause",
				last.err.Error())
		}
		r.store(set.Namespace, last)
	}
	return &last, last.staleAt().Sub(now)
}

// store stores what was read, and forgets namespaces that nobody has asked about for long.
func (r *Reader) store(namespace string, read Budgets) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.namespaces, func(_ string, old Budgets) bool {
		return read.readAt.Sub(old.readAt) > 2*forbiddenBackoff
	})
	r.namespaces[namespace] = read
}

// newlyMissed reports whether the set's condition doesn't say yet that its budget is missing, and would.
func newlyMissed(set *v1alpha1.AutoscalingRunnerSet, read *Budgets, now time.Time) bool {
	condition := Condition(set, read, now)
	return condition != nil && condition.Reason == v1alpha1.ReasonNoDisruptionBudget &&
		!meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionRunnersUnprotected)
}

// list reads the first budgets of a namespace, and returns what is kept of them. Anybody with rights there may create
// any number, of up to 1.5 MB each.
func (r *Reader) list(ctx context.Context, namespace string) (read Budgets) {
	page := policyv1.PodDisruptionBudgetList{}
	for range mostPages {
		more := page.Continue
		page = policyv1.PodDisruptionBudgetList{}
		if err := r.api.List(ctx, &page, client.InNamespace(namespace), client.Limit(perPage),
			client.Continue(more)); err != nil {
			return Budgets{err: err}
		}
		for i := range page.Items {
			if b := &page.Items[i]; b.Spec.Size() <= maxSize {
				part := map[string]string{v1alpha1.LabelPartOf: b.Labels[v1alpha1.LabelPartOf]}
				read.items = append(read.items, policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
					Name:   b.Name,
					Labels: part,
				}, Spec: b.Spec})
			}
		}
		if read.partial = page.Continue != ""; !read.partial {
			break
		}
	}
	return read
}

// Condition returns RunnersUnprotected, nil if nothing new is known about the protection of the set's runners, or if
// nothing has ever been wrong with it. read may be nil.
func Condition(set *v1alpha1.AutoscalingRunnerSet, read *Budgets, now time.Time) *metav1.Condition {
	const conditionType = v1alpha1.ConditionRunnersUnprotected
	none := set.Spec.ProtectRunners == v1alpha1.ProtectNoRunners
	if !none && (read == nil || read.err != nil) {
		return nil
	}
	reason, message := "", ""
	if !none {
		reason, message = kube.Unprotected(set, read.items)
	}
	switch {
	case reason == v1alpha1.ReasonNoDisruptionBudget &&
		(read.partial || now.Before(set.CreationTimestamp.Add(newSetGrace))):
		return nil
	case reason != "":
		return new(report.True(conditionType, reason, message))
	case meta.FindStatusCondition(set.Status.Conditions, conditionType) == nil:
		return nil
	}
	return new(report.False(conditionType, "Protected", ""))
}
