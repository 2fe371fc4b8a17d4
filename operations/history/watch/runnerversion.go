package watch

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/runnerversion"
)

// Runner is the program that a scale set's template starts.
type Runner struct {
	// Image is the template's, and Version the version that its tag names, empty if it names none.
	Image, Version string
	// End is the time from which GitHub refuses the version by its rules, zero if none is known.
	End time.Time
	// Reason and Message are those of the condition RunnerVersionExpires or RunnerOutdated, empty while neither is true.
	Reason, Message string
}

// RunnerOf returns what is known of the program that a scale set's template starts, in the words of its conditions.
func RunnerOf(set *v1alpha1.AutoscalingRunnerSet) *Runner {
	r := &Runner{Image: kube.Image(&set.Spec.Template.Spec, v1alpha1.RunnerContainerName)}
	if version, named := runnerversion.OfImage(r.Image); named {
		r.Version = version.String()
		end, _ := runnerversion.At(set.Spec.GitHubConfigUrl, set.Status.RunnerVersion).End(version)
		r.End = end.At
	}
	for _, about := range []string{v1alpha1.ConditionRunnerVersionExpires, v1alpha1.ConditionRunnerOutdated} {
		if meta.IsStatusConditionTrue(set.Status.Conditions, about) {
			said := meta.FindStatusCondition(set.Status.Conditions, about)
			r.Reason, r.Message = said.Reason, said.Message
		}
	}
	return r
}
