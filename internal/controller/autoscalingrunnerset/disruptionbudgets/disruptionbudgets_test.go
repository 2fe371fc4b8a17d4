package disruptionbudgets

import (
	"strconv"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
)

// Of more budgets than are read, any may be the one that is missed.
func TestAMissingBudgetAmongManyIsNotTold(t *testing.T) {
	set, read := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set"}},
		&Budgets{partial: true}
	if c := Condition(set, read, time.Now()); c != nil {
		t.Errorf("told %+v", c)
	}
	read.partial = false
	if c := Condition(set, read, time.Now()); c == nil || c.Reason != v1alpha1.ReasonNoDisruptionBudget {
		t.Errorf("told %+v, want %s", c, v1alpha1.ReasonNoDisruptionBudget)
	}
}

// Whoever may create budgets can't fill the manager's memory with them.
func TestHugeBudgetsAreNotKept(t *testing.T) {
	budget := func(name string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: name,
				Labels: map[string]string{v1alpha1.LabelPartOf: "gha-rs"}},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{}}},
		}
	}
	huge, small := budget("huge"), budget("small")
	for i := range 1000 {
		huge.Spec.Selector.MatchLabels[strings.Repeat("k", 40)+strconv.Itoa(i)] = "v"
	}
	small.Annotations = map[string]string{"note": strings.Repeat("x", 100_000)}
	kubernetes := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(budget("set"), huge, small).Build()
	read := NewReader(kubernetes).list(t.Context(), "arc-runners")
	kept := read.items
	if read.err != nil || read.partial || len(kept) != 2 || kept[0].Name != "set" || kept[1].Name != "small" ||
		kept[1].Annotations != nil {
		t.Errorf("kept %v (%+v), want the two that are not huge, without their annotations", kept, read)
	}
}
