package scaleset

import (
	"fmt"

	"github.com/harrier-ci/harrier/internal/convert/legacy"
	"github.com/harrier-ci/harrier/internal/convert/report"
)

// scaling is how many runners there are. ARC counts all of them; minRunners are idle ones, in addition to those that run a job.
func (c *conversion) scaling(spec *legacy.Fields, autoscalers []*legacy.Object) {
	if path := c.config.Present("ephemeral"); !c.config.Flag("ephemeral", true) {
		c.NeedsHand("NoCounterpart", "a runner serves one job, then its pod is replaced; with ephemeral: false it served many", report.Advice{
			Whose: report.Author, Fix: "let jobs not rely on what earlier jobs left on the runner: use actions/cache, or have a shared volume added to template.spec.volumes",
		}, path...)
	} else if path != nil {
		c.NotNeeded("every runner serves one job", path...)
	}
	if len(autoscalers) > 0 {
		if c.kind != legacy.Runner {
			spec.NotNeeded("the autoscaler decides", "replicas")
		}
		c.autoscaling(autoscalers[0])
		for _, other := range autoscalers[1:] {
			c.NeedsHand("TwoAutoscalers", fmt.Sprintf("%s and %s scale it; the first one is converted", autoscalers[0], other),
				report.Advice{Whose: report.Installer, Fix: "compare minRunners and maxRunners with the other one"})
		}
		return
	}
	count := runsOne
	path := "spec"
	if c.kind != legacy.Runner {
		path = spec.Path("replicas")
		if given := spec.Count("replicas"); given != nil {
			count = *given
		}
	}
	c.Became(path, fmt.Sprintf("minRunners: %d, maxRunners: %d", count, count))
	c.values["minRunners"], c.values["maxRunners"] = count, count
}

// autoscaling converts an autoscaler, whose fields it takes.
func (c *conversion) autoscaling(from *legacy.Object) {
	notes := &report.Notes{Object: from.String()}
	all := legacy.NewFields(from.Fields, notes)
	for _, key := range []string{"apiVersion", "kind"} {
		all.Any(key)
	}
	all.NotNeeded("an autoscaler needs no object of its own: its numbers are the scale set's", "metadata")
	all.NotNeeded("ARC wrote it", "status")
	spec := all.Object("spec")
	target := spec.Object("scaleTargetRef")
	target.Any("kind")
	target.Any("name")
	least, most := spec.Count("minReplicas"), spec.Count("maxReplicas")
	if most != nil {
		c.values["maxRunners"] = *most
		notes.Became(spec.Path("maxReplicas"), "maxRunners")
	} else {
		notes.NeedsHand("NoLimit", "the autoscaler gives no maxReplicas, without which ARC doesn't scale; the scale set has no limit",
			report.Advice{Whose: report.Installer, Fix: "set maxRunners"}, spec.Path("maxReplicas"))
	}
	if least != nil {
		if most != nil && *least > *most {
			notes.NeedsHand("InvalidField", "minReplicas is greater than maxReplicas; minRunners is cut to it",
				report.Advice{Whose: report.Installer, Fix: "correct minRunners and maxRunners"}, spec.Path("minReplicas"))
			least = most
		}
		c.values["minRunners"] = *least
		notes.Became(spec.Path("minReplicas"), "minRunners")
	}
	scaleDownDelay(spec, notes)
	spec.NotNeeded("GitHub's queue tells the listener of each job; remove the webhook server, its ingress and its secret once no legacy runner is left", "scaleUpTriggers")
	spec.NotNeeded("the webhook server wrote them for jobs that waited; to hold runners ready, raise minRunners", "capacityReservations")
	metrics(spec, notes)
	if windows := schedules(spec, c.given.Now, notes); len(windows) > 0 {
		c.values["schedules"] = windows
	}
	reference := spec.Object("githubAPICredentialsFrom").Object("secretRef")
	path := reference.Path("name")
	if secret := reference.Text("name"); secret != "" && secret != c.values["githubConfigSecret"] {
		notes.NeedsHand("CredentialsDiffer", "the autoscaler has other credentials than the runners; the scale set has one Secret for both",
			report.Advice{Whose: report.Installer, Fix: "see that githubConfigSecret may register runners; permissions to read workflow runs are not needed"}, path)
	} else if secret != "" {
		notes.Became(path, "githubConfigSecret")
	}
	if left := all.Untaken(); len(left) > 0 {
		notes.NeedsHand("UnknownField", "a "+legacy.Autoscaler+" has no such field, so ARC didn't use it either",
			report.Advice{Whose: report.Installer, Fix: "see whether it is a slip of the pen for another one"}, left...)
	}
	c.Findings = append(c.Findings, notes.Findings...)
	for _, one := range notes.Converted {
		c.Became(from.String()+": "+one.Field, one.Value)
	}
}

// idleSeconds is how long an idle runner beyond minRunners stays, and muchLonger what somebody may have chosen with a purpose: minutes.
const idleSeconds, muchLonger = 30, 2 * 60

// scaleDownDelay kept runners for the next jobs after more of them had been started.
func scaleDownDelay(spec *legacy.Fields, notes *report.Notes) {
	const key = "scaleDownDelaySecondsAfterScaleOut"
	path, fixed := spec.Path(key), fmt.Sprintf("runners serve one job each; an idle one beyond minRunners is removed after %d s", idleSeconds)
	switch delay := spec.Count(key); {
	case delay == nil:
	case *delay > muchLonger || *delay == 0:
		notes.NeedsLook("NoCounterpart", fmt.Sprintf("%s, and no value changes that to the %d s that were set", fixed, *delay),
			report.Advice{Whose: report.Installer, Fix: "if idle runners were kept for the next jobs, raise minRunners"}, path)
	default:
		notes.NotNeeded(fixed, path)
	}
}

// metrics asked GitHub's REST API how many runners are wanted.
func metrics(spec *legacy.Fields, notes *report.Notes) {
	for _, metric := range spec.Objects("metrics") {
		kind := metric.Path("type")
		switch given := metric.Text("type"); given {
		case "TotalNumberOfQueuedAndInProgressWorkflowRuns":
			notes.NotNeeded("GitHub's queue says how many jobs there are, of all repositories that may use the runners", kind)
			metric.NotNeeded("which repositories may use the runners is the choice of the runner group, or of githubConfigUrl", "repositoryNames")
		case "PercentageRunnersBusy":
			notes.NeedsLook("NoCounterpart", "the number of runners follows GitHub's queue, so it isn't guessed from how many are busy; beyond minRunners no idle runner is kept in proportion to busy ones",
				report.Advice{Whose: report.Installer, Fix: "if jobs must not wait for a pod to start in a burst, raise minRunners"}, kind)
		default:
			notes.NeedsHand("InvalidField", "ARC knows no such metric", report.Advice{Whose: report.Installer, Fix: "nothing replaces it: the number of runners follows GitHub's queue"}, kind)
		}
		metric.NotNeeded("it belongs to a metric that GitHub's queue replaces", "repositoryNames", "scaleUpThreshold", "scaleDownThreshold", "scaleUpFactor", "scaleDownFactor",
			"scaleUpAdjustment", "scaleDownAdjustment")
	}
}
