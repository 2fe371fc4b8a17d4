package validation

import (
	"fmt"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/capacity/schedules"
)

// capacity checks the plans of a scale set, and returns the most runners that it ever asks for, nil if there is no limit.
func (c *checks) capacity(spec *v1alpha1.AutoscalingRunnerSetSpec) (most *int) {
	_, refused := schedules.New(effective.Schedules(spec.Schedules))
	for _, wrong := range refused {
		c.add(v1alpha1.ReasonScheduleRefused, wrong.Error(), fmt.Sprintf("correct %s of schedule %q", wrong.Field, wrong.Name))
	}
	most = spec.MaxRunners
	for i := range spec.Schedules {
		if scheduled := spec.Schedules[i].MaxRunners; most != nil && scheduled != nil && *scheduled > *most {
			most = scheduled
		}
	}
	return most
}
