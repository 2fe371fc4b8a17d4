package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/internal/phases"
	"github.com/harrier-ci/harrier/operations/finding"
)

// A job that waits up to longWait from its queueing to its start is not reported: a new node and a large image take
// that long.
const longWait = 5 * time.Minute

// checkWaits reports the long waits of running jobs. It names the longest wait phase by phase, because each phase is
// somebody else's to shorten, and advises on the longest phase.
func checkWaits(s set) []finding.Finding {
	count, longest, runner := 0, time.Duration(0), ""
	var of []phases.Wait
	for i := range s.Runners {
		r := &s.Runners[i]
		if !r.Status.JobRunning() {
			continue
		}
		waits, whole := phases.Waits(r.Status.Phases), time.Duration(0)
		for _, wait := range waits {
			whole += wait.Took
		}
		if whole >= longWait {
			count++
		}
		if whole > longest {
			longest, runner, of = whole, r.Name, waits
		}
	}
	if count == 0 {
		return nil
	}
	var parts []string
	worst := of[0]
	for _, wait := range of {
		if wait.Took > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", wait.Phase, wait.Took))
		}
		if wait.Took > worst.Took {
			worst = wait
		}
	}
	_, phase := meaning.OfPhase(worst.Phase)
	message := fmt.Sprintf("%s waited %s or longer; the longest wait was %s, of the job on runner %s: %s",
		finding.Counted(count, "running job", "running jobs"), longWait, longest, runner, strings.Join(parts, ", "))
	return []finding.Finding{s.finding(finding.Info, "JobsWaitedLong", message,
		fmt.Sprintf("%s took longest: %s", worst.Phase, phase.Advice))}
}
