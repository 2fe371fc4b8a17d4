package runnerversions

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/runnerversion"
)

// endOfVersion has a series for each set whose image's version has an end that is known. It is deleted with the set.
var endOfVersion = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "gha_controller_runner_version_end_timestamp_seconds",
	Help: "Time from which GitHub refuses the runner version that the image's tag names, by its rules. The days that are " +
		"left are its difference from time(), divided by 86400. No series while no end is known.",
}, []string{"name", "namespace"})

func init() { metrics.Registry.MustRegister(endOfVersion) }

// Condition says until when GitHub takes the version of a set's image, nil if no end is known and none was. It
// publishes the end, and returns when they say something else.
func Condition(
	set *v1alpha1.AutoscalingRunnerSet, status *v1alpha1.RunnerVersionStatus, now time.Time,
) (*metav1.Condition, time.Time) {
	const conditionType = v1alpha1.ConditionRunnerVersionExpires
	key := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	image := kube.Image(&set.Spec.Template.Spec, v1alpha1.RunnerContainerName)
	version, _ := runnerversion.OfImage(image)
	known := runnerversion.At(set.Spec.GitHubConfigUrl, status)
	end, found := known.End(version)
	if !found {
		endOfVersion.DeleteLabelValues(key.Name, key.Namespace)
		if meta.FindStatusCondition(set.Status.Conditions, conditionType) == nil {
			return nil, time.Time{}
		}
		return new(report.False(conditionType, "NoEndKnown", "no end of the runner version is known")), time.Time{}
	}
	endOfVersion.WithLabelValues(key.Name, key.Namespace).Set(float64(end.At.Unix()))
	advice := fmt.Sprintf("use a newer image in the template; the newest version that is known is %s",
		known.Newest())
	cause := fmt.Sprintf("30 days after the release of %s", end.Next)
	switch {
	case version.Before(runnerversion.Oldest):
		cause = fmt.Sprintf("because it lets only %s and later register", runnerversion.Oldest)
	case end.FirstSeen:
		cause = fmt.Sprintf("30 days after %s was first seen here: the day of its release isn't known, so the end may "+
			"come earlier", end.Next)
	}
	what := fmt.Sprintf("runner version %s in image %s", version, image)
	day := end.At.UTC().Format(time.DateOnly)
	switch {
	case !now.Before(end.At):
		return new(report.True(conditionType, v1alpha1.ReasonVersionRefused, fmt.Sprintf(
			"since %s GitHub refuses %s by its rules, %s: %s", day, what, cause, advice))), time.Time{}
	case !now.Before(end.At.Add(-runnerversion.Warning)):
		return new(report.True(conditionType, v1alpha1.ReasonVersionEndsSoon, fmt.Sprintf(
			"on %s GitHub stops giving jobs to %s, %s: %s", day, what, cause, advice))), end.At
	case meta.FindStatusCondition(set.Status.Conditions, conditionType) != nil:
		return new(report.False(conditionType, "VersionTaken",
			fmt.Sprintf("GitHub takes %s until %s", what, day))), end.At.Add(-runnerversion.Warning)
	}
	return nil, end.At.Add(-runnerversion.Warning)
}
