package claims

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// The condition says that the manager may not change claims until claimsForbiddenFor after it may try again.
const claimsForbiddenFor = 2 * time.Minute

// Describe writes into the status the number of claims, and returns the condition about what runners wait for.
func (l *Lease) Describe(p *pass.Pass) []metav1.Condition {
	status, m := &p.Set.Status, l.memory
	const conditionType = v1alpha1.ConditionVolumeClaimsReady
	if l.set == nil && len(p.Origin.Spec.VolumeClaimTemplates) == 0 {
		m.series.publish(p.ScaleSet, nil, nil)
		if status.VolumeClaims = nil; meta.FindStatusCondition(status.Conditions, conditionType) != nil {
			return []metav1.Condition{report.True(conditionType, "NoClaims", "the scale set has no claims")}
		}
		return nil
	}
	if l.decision == nil {
		return nil // it isn't known
	}
	m.series.publish(p.ScaleSet, p.Origin.Spec.VolumeClaimTemplates, l.decision)
	counts := v1alpha1.VolumeClaimCounts{AwaitPlace: l.decision.AwaitPlace.Len()}
	for _, template := range l.decision.Counts {
		counts.Total += template.Total
		counts.Leased += template.Leased
		counts.Free += template.Free
		counts.FullestPercent = max(counts.FullestPercent, template.FullestPercent)
	}
	status.VolumeClaims = &counts
	condition := report.True(conditionType, "ClaimsReady", "runners get their claims")
	refused, spoiled := claimRunners(p.Runners)
	switch {
	case spoiled != nil:
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimNotDeleted,
			fmt.Sprintf("runner %s stays: %s", spoiled.Name, spoiled.Message))
	case refused != nil:
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimRefused,
			fmt.Sprintf("runner %s waits: %s", refused.Name, refused.Message))
	case l.decision.Wait == volumeclaims.WaitForFreeClaim:
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimsExhausted, fmt.Sprintf(
			"%d runners wait for a claim: as many exist as volumeClaimPool.max allows, and none is free; raise max, or set "+
				"whenExhausted to Ephemeral", l.decision.Waiting))
	case l.decision.Unprovisioned != "":
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimUnprovisioned, fmt.Sprintf(
			"runner %s waits: its claims have got no volume for a minute, and an Event of the claim says why: kubectl -n %s "+
				"describe persistentvolumeclaims -l %s=%s%s", l.decision.Unprovisioned, p.Origin.Namespace,
			v1alpha1.LabelScaleSetName, p.Origin.Name, seedAdvice(p.Origin)))
	case l.decision.PlaceLost != "":
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimsAwaitPlace, fmt.Sprintf(
			"%d runners wait for a node, and there is none where their claims' volumes can be used; runner %s has for half of "+
				"its pendingTimeout, after which it gets other claims if there are nodes elsewhere", counts.AwaitPlace,
			l.decision.PlaceLost))
	case p.Now.Before(m.allowedAt.Add(claimsForbiddenFor)):
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimRefused, fmt.Sprintf(
			"the manager may not change the scale set's claims: %s; the chart of the scale set gives it the right "+
				"while its values have volumeClaimTemplates or volumeClaimPool; claims that nobody needs any more: kubectl delete "+
				"persistentvolumeclaims -n %s -l %s=%s",
			m.forbidden, p.Origin.Namespace, v1alpha1.LabelScaleSetName, p.Origin.Name))
	case l.decision.Wait == volumeclaims.WaitForList:
		return nil // in a second
	}
	return []metav1.Condition{condition}
}

// seedAdvice says what besides may keep copies from being made, empty if new claims are none.
func seedAdvice(set *v1alpha1.AutoscalingRunnerSet) string {
	if from := set.Spec.EffectiveVolumeClaimPool().SeedFrom; *from == (v1alpha1.VolumeClaimSeed{}) {
		return ""
	}
	return "; new claims are copies, which not every driver makes: without volumeClaimPool.seedFrom they are empty"
}

// claimRunners returns the oldest runner that waits for a claim which the API server refuses, and the oldest that stays
// because the manager may not delete its claims; nil if there is none.
func claimRunners(runners []*roster.Runner) (refused, spoiled *roster.Runner) {
	for _, r := range runners {
		if refused == nil && r.Reason == v1alpha1.ReasonVolumeClaimRefused && r.Alive() && !r.Up() && !r.Deleting {
			refused = r
		}
		if spoiled == nil && r.Reason == v1alpha1.ReasonVolumeClaimNotDeleted && r.Deleting {
			spoiled = r
		}
	}
	return refused, spoiled
}
