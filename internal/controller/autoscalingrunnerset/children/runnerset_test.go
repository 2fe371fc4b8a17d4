package children_test

import (
	"math"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
)

// roomBeside returns maxRunners of the first of these runner sets, whose scale set has the maximum.
func roomBeside(most int, runnerSets []v1alpha1.EphemeralRunnerSet) *int {
	numbers := effective.Numbers{}
	numbers.Max = most
	return children.NewKeeper(children.Options{}).RunnerSet(children.Wanted{
		Set:     &v1alpha1.AutoscalingRunnerSet{},
		Numbers: numbers, Found: &children.Found{RunnerSets: runnerSets},
	}).Spec.MaxRunners
}

func TestRoomForRunners(t *testing.T) {
	const limit = 5
	sets := []v1alpha1.EphemeralRunnerSet{{}, {Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 3}},
		{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 4}}}
	if got := roomBeside(v1alpha1.MaxRunnersUnlimited, sets); got != nil {
		t.Errorf("without a limit: %d", *got)
	}
	forged := []v1alpha1.EphemeralRunnerSet{{},
		{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: math.MinInt}}}
	if got := roomBeside(limit, forged); *got != limit {
		t.Errorf("beside a set with a forged status: %d, want %d", *got, limit)
	}
	for n, want := range map[int]int{1: 5, 2: 2, 3: 0} {
		if got := roomBeside(limit, sets[:n]); *got != want {
			t.Errorf("beside %d older sets: %d, want %d", n-1, *got, want)
		}
	}
}
