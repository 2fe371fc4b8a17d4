package rules_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// newRunner returns a runner as its set creates it.
func newRunner() *v1alpha1.EphemeralRunner {
	return &v1alpha1.EphemeralRunner{
		ObjectMeta: metav1.ObjectMeta{Namespace: "arc-runners", Name: "set-runner-abcde", UID: "runner-uid",
			Generation: 1},
		Spec: v1alpha1.EphemeralRunnerSpec{
			PodSpec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: v1alpha1.RunnerContainerName, Image: "runner:1"}}},
		},
	}
}
