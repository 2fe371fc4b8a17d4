package disruptionbudgets_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/disruptionbudgets"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func newSet() *v1alpha1.AutoscalingRunnerSet {
	return &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set"}}
}

// budget allows no eviction of any pod.
func budget(name string) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: name,
			Labels: map[string]string{v1alpha1.LabelPartOf: "gha-rs"}},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(math.MaxInt32)), Selector: &metav1.LabelSelector{},
		},
	}
}

// hugeBudget doesn't either, in more bytes than a budget may have.
func hugeBudget() policyv1.PodDisruptionBudget {
	huge := budget("huge")
	for i := range 1000 {
		huge.Spec.Selector.MatchExpressions = append(huge.Spec.Selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: strings.Repeat("k", 40) + strconv.Itoa(i),
				Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	return huge
}

// paged is an API server that answers lists with so many pages of 50 budgets, and counts the pages asked for.
func paged(t *testing.T, pages int, asked *int, number func(i int) policyv1.PodDisruptionBudget) client.Reader {
	t.Helper()
	return interceptor.NewClient(controllertest.NewKubernetes().Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			wanted := client.ListOptions{}
			wanted.ApplyOptions(options)
			page, err := strconv.Atoi("0" + wanted.Continue)
			if err != nil || wanted.Limit != 50 || wanted.Namespace != "arc-runners" {
				t.Errorf("asked for %+v, %v", wanted, err)
			}
			*asked++
			budgets := list.(*policyv1.PodDisruptionBudgetList)
			for i := range 50 {
				budgets.Items = append(budgets.Items, number(page*50+i))
			}
			if page+1 < pages {
				budgets.Continue = strconv.Itoa(page + 1)
			}
			return nil
		},
	})
}

// Of more budgets than are read, any may be the one that is missed.
func TestAMissingBudgetAmongManyIsNotTold(t *testing.T) {
	set, now := newSet(), time.Now()
	for pages, told := range map[int]bool{1: true, 4: true, 5: false, 100: false} {
		asked := 0
		reader := disruptionbudgets.NewReader(paged(t, pages, &asked, func(i int) policyv1.PodDisruptionBudget {
			other := budget(fmt.Sprint("other-", i))
			other.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
			return other
		}))
		read, _ := reader.Read(t.Context(), set, now)
		c := disruptionbudgets.Condition(set, read, now)
		if (c != nil) != told || (told && c.Reason != v1alpha1.ReasonNoDisruptionBudget) {
			t.Errorf("of %d pages: told %+v, want something: %t", pages, c, told)
		}
		if asked != min(pages, 4) {
			t.Errorf("%d of %d pages were asked for, want 4 at most", asked, pages)
		}
	}
}

// What is kept of a budget is enough to see that it is for a set's runners.
func TestSmallBudgetsAreLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		other policyv1.PodDisruptionBudget
		told  string
	}{"small": {budget("small"), v1alpha1.ReasonSeveralDisruptionBudgets}, "huge": {hugeBudget(), ""}} {
		t.Run(name, func(t *testing.T) {
			set, now, own, other := newSet(), time.Now(), budget("set"), test.other
			kubernetes := controllertest.NewKubernetes().WithObjects(&own, &other).Build()
			read, _ := disruptionbudgets.NewReader(kubernetes).Read(t.Context(), set, now)
			told := ""
			if c := disruptionbudgets.Condition(set, read, now); c != nil {
				told = c.Reason
			}
			if told != test.told {
				t.Errorf("told %q, want %q", told, test.told)
			}
		})
	}
}

// Whoever may create budgets can't fill the manager's memory with them: 200 small ones with 100 kB of annotations each,
// or 200 with a selector of 40 kB.
func TestHugeBudgetsAreNotKept(t *testing.T) {
	held := func() int {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		return int(memory.HeapAlloc)
	}
	for name, number := range map[string]func(i int) policyv1.PodDisruptionBudget{
		"annotations": func(i int) policyv1.PodDisruptionBudget {
			small := budget(fmt.Sprint("small-", i))
			small.Annotations = map[string]string{"note": strings.Repeat("x", 100_000)}
			return small
		},
		"selectors": func(int) policyv1.PodDisruptionBudget { return hugeBudget() },
	} {
		asked := 0
		reader := disruptionbudgets.NewReader(paged(t, 4, &asked, number))
		before := held()
		read, _ := reader.Read(t.Context(), newSet(), time.Now())
		if kept := held() - before; kept > 1<<20 || asked != 4 {
			t.Errorf("%s: %d bytes are kept of %d pages, want 1 MiB at most", name, kept, asked)
		}
		runtime.KeepAlive(reader)
		runtime.KeepAlive(read)
	}
}
