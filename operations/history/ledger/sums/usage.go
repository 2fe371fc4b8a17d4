package sums

import (
	"github.com/harrier-ci/harrier/operations/history/ledger/period"
	"github.com/harrier-ci/harrier/operations/history/rows"
)

// Usage returns the row of a group, with its cost.
func (s *Sums) Usage(of rows.Group, cost *Cost) rows.Usage {
	u := rows.Usage{Group: of}
	u.Jobs, u.Succeeded, u.Failed, u.Canceled, u.Lost = s.jobs, s.succeeded, s.failed, s.canceled, s.lost
	u.RunHours = float64(s.runSeconds) / float64(period.Hour)
	u.CPUHoursRequested = float64(s.cpuRequested) / 1000 / float64(period.Hour)
	u.GiBHoursRequested = float64(s.memoryRequested) / 1024 / float64(period.Hour)
	u.CPUHoursUsed = float64(s.cpuUsed) / 1000 / float64(period.Hour)
	u.JobsWithKnownUsage, u.JobsWithKnownWait = s.measured, s.waited
	if s.waited > 0 {
		u.Waits = map[string]float64{}
		for i, phase := range waitPhases {
			u.Waits[phase] = float64(s.waits[i]) / float64(s.waited)
		}
	}
	u.Cost, u.UnpricedHours = cost.Amount, cost.UnpricedHours()
	return u
}
