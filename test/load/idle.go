package load

import (
	"fmt"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// idle measures scale sets that wait for jobs, to show what they cost just by existing.
func idle(t *testing.T, cluster *testkube.Cluster, s *settings, _ int) Result {
	result := newResult(s, 0)
	r := rig.Start(t, cluster, s.rigOptions(s.sets))
	for i := 1; i < s.sets; i++ { // the rig has one
		r.InstallSet(fmt.Sprintf("set-%03d", i), nil)
	}
	for i := 1; i < s.sets; i++ {
		r.AwaitListening(fmt.Sprintf("set-%03d", i))
	}
	<-time.After(settle)
	m := begin(t, r).profiled(s)
	<-time.After(s.length)
	m.end(&result)
	m.noteIdle(s, &result)
	return result
}

// For settle after a set has begun to listen it still has something to do: the first statistics, a status, an Event.
const settle = 15 * time.Second

// noteIdle notes the costs of one set and of one process.
func (m *measurement) noteIdle(s *settings, result *Result) {
	m.t.Helper()
	took, sets := time.Since(m.began), float64(s.sets)
	total := 0
	for _, counts := range result.Requests {
		for _, count := range counts {
			total += count
		}
	}
	setMinutes := took.Minutes() * sets
	result.Notes["requests per set and minute"] = fmt.Sprintf("%.1f, %.1f of them reads", float64(total)/setMinutes,
		float64(result.Reads)/setMinutes)
	result.Notes["one process"] = fmt.Sprintf("manager %s, listener %s", share(result.Manager, took),
		share(result.Listener, took))
}

// share describes what one process of a program has used, its CPU time as a percentage of one CPU.
func share(p Process, took time.Duration) string {
	processes := float64(max(1, p.Processes))
	return fmt.Sprintf("%.3f %% CPU, %.1f MiB", p.CPU/float64(took.Milliseconds())*100/processes, p.Resident/processes)
}
