package watch_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/history/watch"
)

// The page has the version that the image's tag names, its end, and the words of the condition about it.
func TestRunnerOfASet(t *testing.T) {
	end := time.Date(2026, time.March, 27, 0, 0, 0, 0, time.UTC)
	told := func(about, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: about, Status: metav1.ConditionTrue, Reason: reason, Message: message}}
	}
	for name, test := range map[string]struct {
		image, url string
		conditions []metav1.Condition
		want       watch.Runner
	}{
		"an end is known": {"runner:2.331.0", "https://github.com/acme", nil,
			watch.Runner{Image: "runner:2.331.0", Version: "2.331.0", End: end}},
		"it is soon": {"runner:2.331.0", "https://github.com/acme", told(v1alpha1.ConditionRunnerVersionExpires, "Soon", "on a day"),
			watch.Runner{Image: "runner:2.331.0", Version: "2.331.0", End: end, Reason: "Soon", Message: "on a day"}},
		"it was refused": {"runner:latest", "https://github.com/acme", told(v1alpha1.ConditionRunnerOutdated, "Outdated", "GitHub refuses"),
			watch.Runner{Image: "runner:latest", Reason: "Outdated", Message: "GitHub refuses"}},
		"Enterprise Server": {"runner:2.331.0", "https://ghes.example.com/acme", nil,
			watch.Runner{Image: "runner:2.331.0", Version: "2.331.0"}},
		"not true": {"runner:latest", "https://github.com/acme",
			[]metav1.Condition{{Type: v1alpha1.ConditionRunnerOutdated, Status: metav1.ConditionFalse, Reason: "Accepted"}},
			watch.Runner{Image: "runner:latest"}},
	} {
		set := &v1alpha1.AutoscalingRunnerSet{}
		set.Spec.GitHubConfigUrl, set.Status.Conditions = test.url, test.conditions
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: v1alpha1.RunnerContainerName, Image: test.image}}
		if got := watch.RunnerOf(set); *got != test.want {
			t.Errorf("%s: %+v, want %+v", name, *got, test.want)
		}
	}
}
