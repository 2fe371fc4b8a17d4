package conversion

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
	"github.com/harrier-ci/harrier/operations/finding"
)

// scaling takes the numbers of runners. ARC counts all of them; minRunners are idle ones, in addition to those that run
// a job.
func (c *conversion) scaling(spec *legacy.Fields, autoscalers []*legacy.Object) {
	if path := c.config.Present("ephemeral"); !c.config.Flag("ephemeral", true) {
		c.NeedsHand("NoCounterpart",
			"a runner serves one job, then its pod is replaced; with ephemeral: false it served many",
			remarks.Advice{
				Whose: remarks.Author,
				Fix: "let jobs not rely on what earlier jobs left on the runner: use actions/cache, or " +
					"have a shared volume added to template.spec.volumes",
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
			c.NeedsHand("TwoAutoscalers", fmt.Sprintf("%s and %s scale it; the first one is converted",
				autoscalers[0], other),
				remarks.Advice{Whose: remarks.Installer, Fix: "compare minRunners and maxRunners with the other one"})
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
	notes := &remarks.Notes{Object: from.String()}
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
		notes.NeedsHand("NoLimit", "the autoscaler gives no maxReplicas, without which ARC doesn't scale; the "+
			"scale set has no limit",
			remarks.Advice{Whose: remarks.Installer, Fix: "set maxRunners"}, spec.Path("maxReplicas"))
	}
	if least != nil {
		if most != nil && *least > *most {
			notes.NeedsHand("InvalidField", "minReplicas is greater than maxReplicas; minRunners is cut to it",
				remarks.Advice{Whose: remarks.Installer, Fix: "correct minRunners and maxRunners"},
				spec.Path("minReplicas"))
			least = most
		}
		c.values["minRunners"] = *least
	}
	c.scaleDownDelay(spec, notes)
	spec.NotNeeded("GitHub's queue tells the listener of each job; remove the webhook server, its ingress and its "+
		"secret once no legacy runner is left", "scaleUpTriggers")
	spec.NotNeeded("the webhook server wrote them for jobs that waited; to hold runners ready, raise minRunners",
		"capacityReservations")
	c.metrics(spec, notes)
	windows := schedules(spec, c.given.Now, notes)
	if len(windows) > 0 {
		c.values["schedules"] = windows
	}
	c.sayIdle(spec, least, most, windows, notes)
	reference := spec.Object("githubAPICredentialsFrom").Object("secretRef")
	path := reference.Path("name")
	if secret := reference.Text("name"); secret != "" && secret != c.values["githubConfigSecret"] {
		notes.NeedsHand("CredentialsDiffer",
			"the autoscaler has other credentials than the runners; the scale set has one Secret for both",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix: "see that githubConfigSecret may register runners; permissions to read workflow runs are " +
					"not needed",
			}, path)
	} else if secret != "" {
		notes.Became(path, "githubConfigSecret")
	}
	if left := all.Untaken(); len(left) > 0 {
		notes.NeedsHand("UnknownField", "a "+legacy.Autoscaler+" has no such field, so ARC didn't use it either",
			remarks.Advice{Whose: remarks.Installer, Fix: "see whether it is a slip of the pen for another one"}, left...)
	}
	c.Findings = append(c.Findings, notes.Findings...)
	for _, one := range notes.Converted {
		c.Became(from.String()+": "+one.Field, one.Value)
	}
}

// sayIdle says what a number of idle runners costs that was one of all runners: no number means what ARC's did, and a
// lower one may keep jobs waiting that didn't wait before. Nothing is to be said if the limit leaves no room for more.
func (c *conversion) sayIdle(spec *legacy.Fields, least, most *int, windows []any, notes *remarks.Notes) {
	path := spec.Path("minReplicas")
	var alike []string
	idle := 0
	if least != nil {
		idle = *least
	}
	for _, one := range windows {
		window, isWindow := one.(map[string]any)
		if number, counts := window["minRunners"].(int); isWindow && counts && number > 0 {
			alike, idle = append(alike, fmt.Sprintf("schedule %s", window["name"])), max(idle, number)
		}
	}
	busy := idle // where ARC had no runner idle
	now := c.inProportion(busy)
	before, now := busy+now, busy+max(idle, now)
	if most != nil {
		before, now = min(before, *most), min(now, *most)
	}
	switch {
	case now > before:
		became := "minRunners"
		if least == nil {
			became = "minRunners of its schedules"
		} else if len(alike) > 0 {
			became += ", as do those of " + finding.Listed(alike, maxNamed) + ","
		}
		notes.NeedsLook("IdleBesideBusy", fmt.Sprintf("it becomes %s, which counts idle runners beside those that run a "+
			"job; minReplicas counted both. While %d jobs run there were %d runners, and there are %d now: the others "+
			"cost as much", became, busy, before, now),
			remarks.Advice{Whose: remarks.Installer, Fix: `lower it to as many jobs as arrive while one pod starts, or ` +
				`have runners ready in working hours only: "Which number do I set" and "More runners at certain hours" in ` +
				`docs/scaling.md`}, path)
	case least != nil:
		notes.Became(path, "minRunners")
	}
}

// inProportion returns the idle runners that the headroom keeps beside busy ones, rounded up.
func (c *conversion) inProportion(busy int) int {
	headroom, _ := c.values["headroom"].(map[string]any)
	percent, _ := headroom["percent"].(int)
	return (busy*percent + 99) / 100
}

// shortestDelay and longestDelay limit the seconds for which the scale set keeps a runner that is too many: its own
// rules.
const shortestDelay, longestDelay = 1, 8760 * 60 * 60

// scaleDownDelay keeps runners for the next jobs after more of them have been started. ARC counts from the last start
// of any runner, a scale set counts for each runner from the time at which there is one too many.
func (c *conversion) scaleDownDelay(spec *legacy.Fields, notes *remarks.Notes) {
	const key = "scaleDownDelaySecondsAfterScaleOut"
	path := spec.Path(key)
	given := spec.Count(key)
	if given == nil {
		return
	}
	delay := fmt.Sprintf("%ds", min(max(shortestDelay, *given), longestDelay))
	c.values["scaleDownDelay"] = delay
	notes.Became(path, "scaleDownDelay: "+delay)
}

// metrics converts the metrics by which ARC asked GitHub's REST API for the number of runners.
func (c *conversion) metrics(spec *legacy.Fields, notes *remarks.Notes) {
	for _, metric := range spec.Objects("metrics") {
		kind := metric.Path("type")
		switch given := metric.Text("type"); given {
		case "TotalNumberOfQueuedAndInProgressWorkflowRuns":
			notes.NotNeeded("GitHub's queue says how many jobs there are, of all repositories that may use the runners",
				kind)
			metric.NotNeeded("which repositories may use the runners is the choice of the runner group, or of "+
				"githubConfigUrl",
				"repositoryNames")
		case "PercentageRunnersBusy":
			c.headroom(metric, kind, notes)
		default:
			notes.NeedsHand("InvalidField", "ARC knows no such metric",
				remarks.Advice{Whose: remarks.Installer,
					Fix: "nothing replaces it: the number of runners follows GitHub's queue"},
				kind)
		}
		metric.NotNeeded("it belongs to a metric that GitHub's queue replaces", "repositoryNames", "scaleUpThreshold",
			"scaleDownThreshold", "scaleUpFactor", "scaleDownFactor",
			"scaleUpAdjustment", "scaleDownAdjustment")
	}
}

// defaultThreshold is the share of busy runners from which ARC adds more, unless the metric says otherwise. mostPercent
// is the highest that a scale set takes.
const defaultThreshold, mostPercent = "0.8", 1000

// headroom takes a share of busy runners: ARC adds runners until fewer than that share are busy, so that for each busy
// one there are 1/threshold − 1 idle ones. The scale set creates these idle runners in one step, and adjusts their
// number as busy runners come and go.
func (c *conversion) headroom(metric *legacy.Fields, kind string, notes *remarks.Notes) {
	path := metric.Path("scaleUpThreshold")
	threshold, err := strconv.ParseFloat(cmp.Or(metric.Text("scaleUpThreshold"), defaultThreshold), 64)
	if err != nil || !(threshold > 0 && threshold < 1) { // not a number compares with nothing
		notes.NeedsHand("InvalidField",
			"a scaleUpThreshold is a share between 0 and 1, such as '0.75'; without one there is nothing to keep idle "+
				"runners by",
			remarks.Advice{
				Whose: remarks.Installer,
				Fix:   "set headroom, if idle runners are to be kept in proportion to busy ones",
			}, kind, path)
		return
	}
	// A thousandth is taken off, so that 0.8 becomes 25 and not, by the error of the division, 26.
	percent := int(math.Min(math.Ceil(100*(1/threshold-1)-0.001), mostPercent))
	c.values["headroom"] = map[string]any{"percent": percent}
	became := fmt.Sprintf("headroom: {percent: %d}", percent)
	notes.Became(kind, became)
	notes.Became(path, became)
}
