package diagnosis

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
)

// maximum is what the scale set asks for at most: nil is any number.
type maximum struct {
	number *int
	// name says which number it is, period until when, and advice how it gets higher.
	name, period, advice string
}

// askedFor returns the maximum of the spec, or the lowest of the schedules that are open.
func askedFor(s set) maximum {
	asked := maximum{number: s.Spec.MaxRunners, name: "maxRunners", advice: "raise maxRunners"}
	scheduled := false
	for _, schedule := range s.Spec.Schedules {
		if schedule.MaxRunners == nil || !slices.Contains(s.Status.ActiveSchedules, schedule.Name) || scheduled && *schedule.MaxRunners >= *asked.number {
			continue
		}
		scheduled = true
		name := fmt.Sprintf("maxRunners of schedule %s", schedule.Name)
		asked = maximum{number: schedule.MaxRunners, name: name, advice: "raise " + name + ", or wait for its end"}
		if until := s.Status.EffectiveUntil; until != nil {
			asked.period = ", in force until " + until.UTC().Format(time.RFC3339) + ","
		}
	}
	return asked
}

// checkLimits reports limits that allow no more runners.
func checkLimits(s set) []finding.Finding {
	findings := append(s.fromCondition(finding.Problem, s.condition(v1alpha1.ConditionQuotaExceeded, metav1.ConditionTrue)), fullQuotas(s)...)
	findings = append(findings, announcedRoom(s)...)
	asked, runnerSet := askedFor(s), s.RunnerSet()
	most := asked.number
	if runnerSet != nil && runnerSet.Spec.MaxRunners != nil && *runnerSet.Spec.MaxRunners <= runnerSet.Spec.AssignedJobs &&
		(most == nil || *most > *runnerSet.Spec.MaxRunners) {
		return append(findings, s.finding(finding.Warning, v1alpha1.ReasonMaxRunnersReached,
			fmt.Sprintf("the manager allows the scale set %s, with %s; more jobs wait on GitHub",
				finding.Counted(*runnerSet.Spec.MaxRunners, "runner", "runners"), finding.Counted(runnerSet.Spec.AssignedJobs, "assigned job", "assigned jobs")),
			"wait for a runner to finish; the limit is flags.maxRunnersPerSet of the controller's chart, which the cluster's administrator decides, "+
				"or maxRunners less the runners of a former template"))
	}
	switch {
	case most != nil && *most == 0:
		return append(findings, s.finding(finding.Problem, v1alpha1.ReasonMaxRunnersZero,
			asked.name+asked.period+" is 0: the scale set takes no jobs, and its listener has no session; jobs that run finish", asked.advice))
	case most != nil && runnerSet != nil && runnerSet.Spec.AssignedJobs >= *most:
		return append(findings, s.finding(finding.Warning, v1alpha1.ReasonMaxRunnersReached,
			fmt.Sprintf("%s of %d%s is reached, with %s; more jobs wait on GitHub", asked.name, *most, asked.period, finding.Counted(runnerSet.Spec.AssignedJobs, "assigned job", "assigned jobs")),
			asked.advice+", or wait for a runner to finish"))
	}
	return findings
}

// announcedRoom reports that GitHub may assign no more jobs to a set with capacity.mode Placement, and why. What keeps its pods waiting, or
// its runners failing, has findings of its own.
func announcedRoom(s set) []finding.Finding {
	limited, runnerSet := s.condition(v1alpha1.ConditionCapacityLimited, metav1.ConditionTrue), s.RunnerSet()
	if limited == nil || runnerSet == nil || runnerSet.Status.Capacity == nil || runnerSet.Spec.AssignedJobs < *runnerSet.Status.Capacity {
		return nil
	}
	return s.fromCondition(finding.Warning, limited)
}
