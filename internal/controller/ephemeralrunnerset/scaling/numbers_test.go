package scaling

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/schedules"
)

func inForce(least, most int) (n effective.Numbers) {
	n.Numbers = schedules.Numbers{Min: least, Max: most}
	return n
}

// TestNumbersInForceCount: the listener may have published with other numbers, those from before a window opened or closed.
func TestNumbersInForceCount(t *testing.T) {
	for name, test := range map[string]struct {
		spec        v1alpha1.EphemeralRunnerSetSpec
		numbers     effective.Numbers
		create, due int // beside four idle runners
	}{
		"a window has opened":               {v1alpha1.EphemeralRunnerSetSpec{Replicas: 4, AssignedJobs: 2}, inForce(20, 200), 18, 0},
		"it raises the maximum alone":       {v1alpha1.EphemeralRunnerSetSpec{Replicas: 10, AssignedJobs: 90}, inForce(0, 200), 86, 0},
		"a window has closed":               {v1alpha1.EphemeralRunnerSetSpec{Replicas: 21, AssignedJobs: 1}, inForce(0, 50), 0, 3},
		"it lowers the maximum":             {v1alpha1.EphemeralRunnerSetSpec{Replicas: 90, AssignedJobs: 90}, inForce(0, 3), 0, 1},
		"a listener that counts no jobs":    {v1alpha1.EphemeralRunnerSetSpec{Replicas: 6}, inForce(1, 50), 2, 0},
		"and the window is higher":          {v1alpha1.EphemeralRunnerSetSpec{Replicas: 6}, inForce(7, 50), 3, 0},
		"and the window is lower":           {v1alpha1.EphemeralRunnerSetSpec{Replicas: 6}, inForce(0, 3), 0, 1},
		"nobody asks for runners":           {v1alpha1.EphemeralRunnerSetSpec{}, inForce(7, 50), 0, 4},
		"the runner set's own maximum cuts": {v1alpha1.EphemeralRunnerSetSpec{AssignedJobs: 20, MaxRunners: new(6)}, inForce(0, 200), 2, 0},
	} {
		s := newScenario(0)
		s.add(4, idle)
		s.want = DemandOf(&test.spec).Within(test.numbers)
		if test.spec.AssignedJobs == 0 {
			s.want = s.want.Unserved()
		}
		if p := s.pass(); p.create != test.create || len(p.surplus) != test.due {
			t.Errorf("%s: %d are created, %d are surplus", name, p.create, len(p.surplus))
		}
		s.now = s.now.Add(time.Minute)
	}
}
