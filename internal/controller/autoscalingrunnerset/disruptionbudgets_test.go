package autoscalingrunnerset_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

// The read budgets of a namespace hold for budgetsPeriod, and a new set may be without one for budgetsGrace.
const budgetsPeriod, budgetsGrace = time.Minute, 30 * time.Second

// budgetOf returns a PodDisruptionBudget of that name that allows no eviction of the pods with the labels.
func budgetOf(key types.NamespacedName, labels map[string]string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{v1alpha1.LabelPartOf: "gha-rs"}},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(math.MaxInt32)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		},
	}
}

// wantUnprotected fails unless the condition gives the reason and its message the words; "" means that it is absent or
// False.
func (f *fixture) wantUnprotected(when, reason, words string) {
	f.Helper()
	c := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionRunnersUnprotected)
	switch {
	case reason == "" && c != nil && c.Status != metav1.ConditionFalse:
		f.Errorf("%s: %s: %s", when, c.Reason, c.Message)
	case reason != "" && (c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason ||
		!strings.Contains(c.Message, words)):
		f.Errorf("%s: condition %+v, want reason %s with %q", when, c, reason, words)
	}
}

// A second PodDisruptionBudget for the same pods makes the API server answer every eviction with an error. The
// condition names it, and one Event tells it; nothing else of the set is affected.
func TestAForeignBudgetIsNamed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.wantUnprotected("with one budget", "", "")
		foreign := budgetOf(types.NamespacedName{Namespace: setNamespace, Name: "ops-all-pods"}, nil)
		foreign.Labels = nil
		f.create(foreign)
		controllertest.Events(f.recorder)
		controllertest.Elapse(budgetsPeriod)
		f.settle()
		f.wantUnprotected("with two", v1alpha1.ReasonSeveralDisruptionBudgets, "ops-all-pods beside set")
		if got := controllertest.CountEvents(f.recorder, v1alpha1.ReasonSeveralDisruptionBudgets); got != 1 {
			t.Errorf("%d Events, want 1", got)
		}
		f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue, reasonRegistered)
		if err := f.client.Delete(f.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		controllertest.Elapse(budgetsPeriod)
		f.settle()
		f.wantUnprotected("with one again", "", "")
	})
}

func TestAMissingBudgetIsTold(t *testing.T) {
	inBubble(t, func(f *fixture) {
		if err := f.client.Delete(f.Context(), budgetOf(setKey, nil)); err != nil {
			t.Fatal(err)
		}
		f.create(newSet())
		f.settle()
		controllertest.Elapse(budgetsPeriod)
		f.settle()
		f.wantUnprotected("without a budget", v1alpha1.ReasonNoDisruptionBudget, "protectRunners: None")
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.ProtectRunners = v1alpha1.ProtectNoRunners })
		controllertest.Elapse(budgetsPeriod)
		f.settle()
		f.wantUnprotected("without asking for one", "", "")
	})
}

// The budgets of a namespace are read for all of its sets: what was read for another set before this one's budget was
// created says nothing about it.
func TestABudgetThatIsNewerThanTheReadIsNotMissed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		budget := budgetOf(setKey, nil)
		if err := f.client.Get(f.Context(), setKey, budget); err != nil {
			t.Fatal(err)
		}
		if err := f.client.Delete(f.Context(), budget); err != nil {
			t.Fatal(err)
		}
		set := newSet()
		set.Spec.ProtectRunners = v1alpha1.ProtectNoRunners
		f.create(set)
		f.settle()
		controllertest.Elapse(2 * budgetsGrace)
		f.create(newNeighbour())
		controllertest.Reconcile(f, f.controller, twinKey) // reads them for another set
		controllertest.Elapse(budgetsGrace)
		budget.ResourceVersion = ""
		f.create(budget)
		f.edit(func(set *v1alpha1.AutoscalingRunnerSet) { set.Spec.ProtectRunners = v1alpha1.ProtectAllRunners })
		f.settle()
		f.wantUnprotected("with the budget", "", "")
	})
}

// The Role that allows the read comes with the chart. Without it, or while the API server fails, nothing is said and
// nothing else fails; a refusal isn't provoked every minute.
func TestUnreadableBudgetsCostNothing(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}, "",
		errors.New("no Role"))
	for name, test := range map[string]struct {
		err   error
		reads int
	}{
		"forbidden":    {forbidden, 1},
		"out of order": {apierrors.NewInternalError(errors.New("etcd")), 5},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				reads := 0
				list := func(ctx context.Context, c client.WithWatch, list client.ObjectList,
					options ...client.ListOption) error {
					if _, budgets := list.(*policyv1.PodDisruptionBudgetList); budgets {
						reads++
						return test.err
					}
					return c.List(ctx, list, options...)
				}
				f.change = func(o *autoscalingrunnerset.Options) {
					o.Reader = interceptor.NewClient(f.client, interceptor.Funcs{List: list})
				}
				f.restart()
				f.create(newSet())
				f.settle()
				for range 4 {
					controllertest.Elapse(time.Minute)
					f.settle()
				}
				f.wantUnprotected("unread", "", "")
				f.wantCondition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionTrue, reasonRegistered)
				if reads < 1 || reads > test.reads {
					t.Errorf("read %d times in 4 minutes, want at most %d", reads, test.reads)
				}
			})
		})
	}
}
