package claims

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// claimsByState has a series for each template and state that a claim has been in.
var claimsByState = setmetrics.Gauge("volume_claims",
	"Claims of volumeClaimTemplates by template and state (leased, free, cloning, deleting, other). Those in state "+
		"other are about to go, or copies are made from them on request. Claims of templates that the scale set has no "+
		"more are those of template (former).", "template", "state")

// What an operator asks of caches: do they hit, what keeps them from it, are they full?
var (
	leased = setmetrics.Counter("volume_claims_leased_total",
		"Runners that got claims of volumeClaimTemplates, by what their jobs find there: what earlier jobs have left (used), "+
			"nothing because the claims are new (empty), a copy (copied), or an empty directory instead (directory). A cache "+
			"hits for used and copied.", "content")
	replaced = setmetrics.Counter("volume_claims_replaced_total",
		"Runners whose places others with other claims have taken, by reason: each is a try that cost its wait.", "reason")
	deleted    = setmetrics.Counter("volume_claims_deleted_total", "Claims that the manager has deleted, by cause.", "cause")
	awaitPlace = setmetrics.Gauge("volume_claims_awaiting_place",
		"Runners whose pods wait for a node although there is none where their claims' volumes can be used.")
	usedRatio = setmetrics.Gauge("volume_claims_used_ratio",
		"How full the fullest claim of a template was at the end of its last job, as the hook of feedback.jobLog has told.",
		"template")
)

// claimState is one state of the claims of one template.
type claimState struct{ template, state string }

// series are those of one set: published has the states that have some.
type series struct{ published map[claimState]int }

// publish publishes what was decided about the claims of a set: how many of each template of the spec are in each state,
// which may be 0, how many runners wait for a place, and how full claims are. decision is nil for a set without claims,
// whose series end but for the counters.
func (s *series) publish(
	scaleSet types.NamespacedName, templates []v1alpha1.VolumeClaimTemplate, decision *volumeclaims.Decision,
) {
	counts := map[claimState]int{}
	usedRatio.DeletePartialMatch(map[string]string{"name": scaleSet.Name, "namespace": scaleSet.Namespace})
	if decision == nil {
		awaitPlace.DeleteLabelValues(scaleSet.Name, scaleSet.Namespace)
	} else {
		setmetrics.Begin(leased, scaleSet, volumeclaims.Contents...)
		setmetrics.Begin(replaced, scaleSet, v1alpha1.ReasonVolumeClaimUnusable)
		setmetrics.Begin(deleted, scaleSet, string(volumeclaims.Discarded))
		awaitPlace.WithLabelValues(scaleSet.Name, scaleSet.Namespace).Set(float64(decision.AwaitPlace.Len()))
		for name, c := range decision.Counts {
			if !slices.ContainsFunc(templates, func(t v1alpha1.VolumeClaimTemplate) bool { return t.Metadata.Name == name }) {
				name = "(former)" // which nobody can choose
			} else if c.FullestPercent > 0 {
				usedRatio.WithLabelValues(scaleSet.Name, scaleSet.Namespace, name).Set(float64(c.FullestPercent) / 100)
			}
			for state, count := range map[string]int{"leased": c.Leased, "free": c.Free, "cloning": c.Cloning,
				"deleting": c.Deleting, "other": c.Total - c.Leased - c.Free - c.Cloning - c.Deleting} {
				counts[claimState{name, state}] += count
			}
		}
	}
	for of := range s.published {
		if _, still := counts[of]; !still {
			claimsByState.DeleteLabelValues(scaleSet.Name, scaleSet.Namespace, of.template, of.state)
		}
	}
	for of, count := range counts {
		claimsByState.WithLabelValues(scaleSet.Name, scaleSet.Namespace, of.template, of.state).Set(float64(count))
	}
	s.published = counts
}
