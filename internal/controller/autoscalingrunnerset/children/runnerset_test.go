package children

import (
	"math"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

func TestRoomForRunners(t *testing.T) {
	limit := 5
	sets := []v1alpha1.EphemeralRunnerSet{{}, {Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 3}},
		{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 4}}}
	if got := roomForRunners(nil, sets); got != nil {
		t.Errorf("without a limit: %d", *got)
	}
	forged := []v1alpha1.EphemeralRunnerSet{{},
		{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: math.MinInt}}}
	if got := roomForRunners(&limit, forged); *got != limit {
		t.Errorf("beside a set with a forged status: %d, want %d", *got, limit)
	}
	for n, want := range map[int]int{1: 5, 2: 2, 3: 0} {
		if got := roomForRunners(&limit, sets[:n]); *got != want {
			t.Errorf("beside %d older sets: %d, want %d", n-1, *got, want)
		}
	}
}
