package scaling_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/scaling"
)

// What the figures have shown for three minutes is told to the manager.
func TestStrayRegistrations(t *testing.T) {
	for name, test := range map[string]struct {
		registered, busy, idle int
		known                  cluster.RunnerCounts
		want                   int
	}{
		"nothing": {},
		"all known": {
			registered: 7,
			busy:       3,
			idle:       2,
			known:      cluster.RunnerCounts{Pending: 2, Running: 5},
		},
		"strays": {
			registered: 9,
			busy:       3,
			idle:       2,
			known:      cluster.RunnerCounts{Pending: 2, Running: 5},
			want:       2,
		},
		"strays while runners start": {
			registered: 4,
			idle:       1,
			known:      cluster.RunnerCounts{Pending: 2, Running: 1},
			want:       1,
		},
		"runners that had a job":             {registered: 9, busy: 9, known: cluster.RunnerCounts{Running: 5}},
		"the manager has not counted yet":    {registered: 5, idle: 5},
		"a runner is down and another known": {registered: 5, idle: 4, known: cluster.RunnerCounts{Running: 5}},
		"GitHub does not say who is idle":    {registered: 5, known: cluster.RunnerCounts{Running: 5}},
		"no figures at all":                  {known: cluster.RunnerCounts{Running: 5}},
		"nonsense": {
			registered: -3,
			busy:       -9,
			idle:       -9,
			known:      cluster.RunnerCounts{Running: 1},
		},
	} {
		statistics := actions.Statistics{
			TotalRegisteredRunners: test.registered,
			TotalBusyRunners:       test.busy,
			TotalIdleRunners:       test.idle,
		}
		var strays scaling.Strays
		strays.Observe(&statistics, test.known, noon)
		strays.Observe(&statistics, test.known, noon.Add(3*time.Minute-1))
		if strays.Shown != 0 {
			t.Errorf("%s: %d are shown before three minutes have passed", name, strays.Shown)
		}
		strays.Observe(&statistics, test.known, noon.Add(3*time.Minute))
		if strays.Shown != test.want {
			t.Errorf("%s: %d, want %d", name, strays.Shown, test.want)
		}
	}
}
