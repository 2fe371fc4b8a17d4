package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/phases"
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
	message := fmt.Sprintf("%s waited %s or longer; the longest wait was %s, of the job on runner %s: %s",
		finding.Counted(count, "running job", "running jobs"), longWait, longest, runner, strings.Join(parts, ", "))
	return []finding.Finding{s.finding(finding.Info, "JobsWaitedLong", message,
		fmt.Sprintf("%s took longest: %s", worst.Phase, waitFixes[worst.Phase]))}
}

// waitFixes are the steps that shorten a phase, by the name of the phase in status.phases.
var waitFixes = map[string]string{
	"assigned": "GitHub assigns a job once the scale set has room; raise maxRunners if it was reached, otherwise " +
		"see GitHub's status page",
	"created": "the runner set had no room, or listener and manager were behind; see the other findings and the " +
		"conditions of the scale set",
	"registered": "GitHub, or its rate limit, was slow to register the runner; see gha_controller_jit_config_seconds",
	"placed": "the cluster had no node with room; add nodes, lower the runners' requests, or keep idle runners " +
		"(minRunners)",
	"imagePulled": "image, volumes or network of the pod took long; use a smaller image, have it on the nodes, " +
		"or keep idle runners (minRunners)",
	"containerUp": "the pod's init containers took long; see kubectl describe pod",
	"started": "the runner took long to connect to GitHub and to take the job; check proxy and network, and give " +
		"the container more CPU",
}
