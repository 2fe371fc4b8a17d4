package validation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/schedules"
	"github.com/harrier-ci/harrier/operations/dryrun"
)

// capacity checks the plans of a scale set, and returns the most runners that it ever asks for, nil if there is no
// limit. faults are those that the API server finds in the set, which aren't said twice.
func (c *checks) capacity(spec *v1alpha1.AutoscalingRunnerSetSpec, faults []dryrun.Fault) (most *int) {
	_, refused := schedules.New(effective.Schedules(spec.Schedules))
	for _, wrong := range refused {
		i := slices.IndexFunc(spec.Schedules, func(schedule v1alpha1.Schedule) bool {
			return schedule.Name == wrong.Name
		})
		place := fmt.Sprintf("spec.schedules[%d].", i)
		if slices.ContainsFunc(faults, func(fault dryrun.Fault) bool { return strings.HasPrefix(fault.Path, place) }) {
			continue
		}
		c.add(v1alpha1.ReasonScheduleRefused, wrong.Error(),
			fmt.Sprintf("correct %s of schedule %q", wrong.Field, wrong.Name))
	}
	most = spec.MaxRunners
	for i := range spec.Schedules {
		if scheduled := spec.Schedules[i].MaxRunners; most != nil && scheduled != nil && *scheduled > *most {
			most = scheduled
		}
	}
	return most
}
