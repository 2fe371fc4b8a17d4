package rules_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// cost is something that a runner's life has several of, with the number of allocations that it may take on any
// machine: about twice what it took when this was written.
type cost struct {
	do     func()
	budget float64
}

func costs() map[string]cost {
	runner := newRunner()
	running := given(podstatus.Running, allReported)
	pod := &corev1.Pod{Spec: runner.Spec.PodSpec}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "runner",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return map[string]cost{
		"plan":    {func() { rules.Plan(running) }, 0},
		"outcome": {func() { rules.OutcomeOf(pod, noon) }, 0},
	}
}

func BenchmarkRunner(b *testing.B) {
	for name, cost := range costs() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cost.do()
			}
		})
	}
}

func TestAllocationsOfARunner(t *testing.T) {
	for name, cost := range costs() {
		if got := testing.AllocsPerRun(100, cost.do); got > cost.budget {
			t.Errorf("%s allocates %.0f times, budget %.0f", name, got, cost.budget)
		}
	}
}
