package gitops

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kstatus' results for an object of a kind that it doesn't know.
const (
	current     = "Current"
	inProgress  = "InProgress"
	failed      = "Failed"
	terminating = "Terminating"
)

// kstatus follows the rules of sigs.k8s.io/cli-utils/pkg/kstatus for custom resources: deletion first, then a status of
// an earlier generation, then the conditions Reconciling and Stalled if they are true, then Ready.
func kstatus(object map[string]any) string {
	if _, deleted, _ := unstructured.NestedString(object, "metadata", "deletionTimestamp"); deleted {
		return terminating
	}
	generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
	observed, found, _ := unstructured.NestedInt64(object, "status", "observedGeneration")
	if found && observed != generation {
		return inProgress
	}
	conditions := map[string]string{}
	list, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok {
			conditions[text(condition["type"])] = text(condition["status"])
		}
	}
	switch {
	case conditions["Reconciling"] == "True":
		return inProgress
	case conditions["Stalled"] == "True":
		return failed
	case conditions["Ready"] != "" && conditions["Ready"] != "True":
		return inProgress
	default:
		return current
	}
}

func text(value any) string {
	content, _ := value.(string) // anything else is no condition
	return content
}

func TestKstatus(t *testing.T) {
	status := func(observed int64, conditions ...any) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"generation": int64(2)},
			"status":   map[string]any{"observedGeneration": observed, "conditions": conditions},
		}
	}
	condition := func(kind, status string) any { return map[string]any{"type": kind, "status": status} }
	for _, test := range []struct {
		object map[string]any
		want   string
	}{
		{map[string]any{}, current},
		{status(1, condition("Ready", "True")), inProgress},
		{status(2, condition("Ready", "False")), inProgress},
		{status(2, condition("Ready", "False"), condition("Stalled", "True")), failed},
		{status(2, condition("Ready", "True"), condition("Stalled", "False")), current},
		{map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}}, terminating},
	} {
		if got := kstatus(test.object); got != test.want {
			t.Errorf("%v is %s, want %s", test.object, got, test.want)
		}
	}
}
