package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/setmetrics"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

const (
	// If another runner set of the scale set is deciding about its claims at this very moment, it is tried again after
	// claimsTakenInterval.
	claimsTakenInterval = time.Second
	// claimsListInterval is the shortest time between two lists of a scale set's claims: two a minute, and six more,
	// with the pauses of leases.Set.List, if a runner of the list is gone before its watch has shown it.
	claimsListInterval = 30 * time.Second
	// A pod with claims may have a node without starting for slowStartGrace. Then it is found out whether the node can
	// mount them, every mountEventsInterval.
	slowStartGrace      = 20 * time.Second
	mountEventsInterval = 20 * time.Second
	// maxMountEvents bounds the number of Events of one sort that are read.
	maxMountEvents = 500
	// After the API server has forbidden to change a claim, none is changed for shortestForbiddenBackoff, doubling up to
	// longestForbiddenBackoff. The condition says so until claimsForbiddenFor after that.
	shortestForbiddenBackoff = time.Minute
	longestForbiddenBackoff  = time.Hour
	claimsForbiddenFor       = 2 * time.Minute
	// reasonClaimDiscarded is the reason of the Event about a claim that no pod could use.
	reasonClaimDiscarded = "VolumeClaimDiscarded"
	actionLease          = "LeaseClaims"
)

// applyWithClaims carries out the plan, with a lease for each new runner if the scale set has claims.
func (c *Controller) applyWithClaims(ctx context.Context, w *world) error {
	w.create = w.Memory.CreateLimit(w.plan)
	claims, err := c.claims(ctx, w)
	if err == nil && len(claims)+len(w.origin.Spec.VolumeClaimTemplates) == 0 {
		w.Memory.noFreeClaim = false
		return c.apply(ctx, w)
	}
	wanted := max(0, w.create-w.plan.Repeat) // a creation that is repeated has its lease
	w.create -= wanted
	if w.leasing = c.leases.Of(client.ObjectKeyFromObject(w.origin)); w.leasing == nil {
		w.create = 0 // what was promised to creations that are repeated is not known either
		w.RequeueAt(w.Now.Add(claimsTakenInterval))
		return errors.Join(err, c.apply(ctx, w))
	}
	defer w.leasing.End()
	if err == nil {
		err = c.lease(ctx, w, claims, wanted)
	}
	return errors.Join(err, c.apply(ctx, w))
}

// claims returns the claims with the scale set's labels, as the cache has them.
func (c *Controller) claims(ctx context.Context, w *world) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	err := c.options.Client.List(ctx, &list, client.InNamespace(w.origin.Namespace),
		client.MatchingFields{IndexClaimsByScaleSet: w.origin.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return list.Items, nil
}

// lease decides about the scale set's claims and carries that out, but for the leases: these go with the runners, whose
// creations follow. Records and deletions come before replacements: see volumeclaims.Decision.
func (c *Controller) lease(ctx context.Context, w *world, claims []corev1.PersistentVolumeClaim, wanted int) error {
	if err := c.listForLeases(ctx, w); err != nil {
		return err
	}
	c.askAboutMounts(ctx, w, claims)
	seen := c.leases.World(w.origin, claims)
	seen.Expected = c.expectedRunners(ctx, w)
	seen.Listed = w.leasing.Listed()
	decision := w.leasing.Observe(&seen).Plan(wanted)
	w.leasing.Follow(&decision, w.Now)
	w.create += len(decision.Leases)
	w.claims, w.Memory.noFreeClaim = &decision, decision.Wait == volumeclaims.WaitForFreeClaim
	w.RequeueAt(decision.RequeueAt)
	switch decision.Wait {
	case volumeclaims.WaitForList:
		w.Requeue.After(unseenInterval)
	case volumeclaims.WaitForFreeClaim: // some may count that have never been created
		w.Requeue.After(claimsListInterval)
	}
	if err := errors.Join(c.recordOnClaims(ctx, w, claims), c.deleteClaims(ctx, w)); err != nil {
		return err
	}
	c.giveWay(ctx, w)
	return nil
}

// expectedRunners returns the names of runners of the scale set that exist or may exist and that no watch has shown: of
// this set and of those that it replaces.
func (c *Controller) expectedRunners(ctx context.Context, w *world) []string {
	expected := w.leasing.Awaited(func(name string) bool {
		return c.roster.SetOf(types.NamespacedName{Namespace: w.Object.Namespace, Name: name}).UID != ""
	})
	for _, request := range c.runnerSetsOf(ctx, w.origin) {
		if m := c.Known(request.NamespacedName); m != nil {
			for name := range m.Creations.Pending() {
				expected = append(expected, name)
			}
		}
	}
	return expected
}

// listForLeases asks the API server which runners and claims there are, before this process gives the first claim to a
// runner and whenever a claim or runner that should have been seen has not: an earlier process may have leased what the
// cache shows as free.
func (c *Controller) listForLeases(ctx context.Context, w *world) error {
	overdue := w.leasing.Overdue(w.Now)
	if w.leasing.Listed() && (w.Now.Before(w.leasing.ListAt) ||
		(len(overdue) == 0 && len(w.leasing.Awaited(func(string) bool { return false })) == 0)) {
		return nil
	}
	ours := []client.ListOption{client.InNamespace(w.origin.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: w.origin.Name}}
	runners, err := kube.ListMetadata(ctx, c.options.Reader, "EphemeralRunner", ours...)
	if err != nil {
		return err
	}
	existing, err := kube.ListMetadataOf(ctx, c.options.Reader,
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), ours...)
	if err != nil {
		return err
	}
	var unseen []string
	for i := range runners {
		if c.roster.SetOf(client.ObjectKeyFromObject(&runners[i])).UID == "" {
			unseen = append(unseen, runners[i].Name)
		}
	}
	var claims []volumeclaims.Claim
	names := sets.New[string]()
	for i := range existing {
		names.Insert(existing[i].Name)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: existing[i].ObjectMeta}
		if claim, is := volumeclaims.ClaimOf(w.origin, claim); is {
			claims = append(claims, claim)
		}
	}
	w.leasing.List(claims, unseen, c.options.Clock.Now(), claimsListInterval)
	w.leasing.Settle(overdue, names, c.options.Clock.Now())
	return nil
}

// askAboutMounts finds out which of the set's slow pods have claims that their nodes can't attach or mount. No pod's
// status says so, only Events do: they are read while there are such pods. Without an answer the pendingTimeout of
// runners ends the wait.
func (c *Controller) askAboutMounts(ctx context.Context, w *world, claims []corev1.PersistentVolumeClaim) {
	scaleSet := client.ObjectKeyFromObject(w.origin)
	slow, due := c.leases.Slow(scaleSet, slowStartGrace)
	w.RequeueAt(due)
	if !slow {
		return
	}
	w.RequeueAt(kube.LaterOf(w.leasing.EventsAt, w.Now.Add(mountEventsInterval)))
	if w.Now.Before(w.leasing.EventsAt) {
		return
	}
	w.leasing.EventsAt = w.Now.Add(mountEventsInterval)
	var found []corev1.Event
	for _, reason := range leases.MountReasons {
		var list corev1.EventList
		err := c.options.Reader.List(ctx, &list, client.InNamespace(w.origin.Namespace),
			client.MatchingFields{"reason": reason}, client.Limit(maxMountEvents))
		if err != nil && !apierrors.IsForbidden(err) {
			log.FromContext(ctx).Error(err, "Can't list Events about volumes that can't be mounted, asking again", "reason",
				reason)
		}
		found = append(found, list.Items...)
	}
	c.leases.RememberMountEvents(scaleSet, found, claims)
}

// recordOnClaims writes to the claims what must be remembered of the decision for longer than this process lives.
func (c *Controller) recordOnClaims(ctx context.Context, w *world, claims []corev1.PersistentVolumeClaim) error {
	byUID := make(map[types.UID]*corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		byUID[claims[i].UID] = &claims[i]
	}
	return c.onClaims(ctx, w, len(w.claims.Records), func(ctx context.Context, i int) error {
		record := w.claims.Records[i]
		before := byUID[record.UID]
		after := before.DeepCopy()
		record.WriteTo(after, w.origin)
		err := c.options.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err = kube.IgnoreOvertaken(err); err != nil {
			err = fmt.Errorf("write %s of claim %s: %w", record.Key, record.Claim, err)
		}
		return err
	})
}

// deleteClaims deletes the claims that go, and tells why.
func (c *Controller) deleteClaims(ctx context.Context, w *world) error {
	return c.onClaims(ctx, w, len(w.claims.Deletions), func(ctx context.Context, i int) error {
		gone := w.claims.Deletions[i]
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.origin.Namespace, Name: gone.Name}}
		err := c.options.Client.Delete(ctx, claim, client.Preconditions{UID: &gone.UID})
		if err = kube.IgnoreOvertaken(err); err != nil {
			return fmt.Errorf("delete claim %s: %w", gone.Name, err)
		}
		log.FromContext(ctx).Info("Deleted a claim", "claim", gone.Name, "reason", gone.Why, "message", gone.Message)
		if gone.Why == volumeclaims.Discarded || gone.Why == volumeclaims.VolumeLost {
			report.RecordEvent(ctx, c.options.Recorder, w.origin, nil,
				report.Warning(reasonClaimDiscarded, actionLease, gone.Message+"; new claims take its place"))
		}
		return nil
	})
}

// onClaims does something with claims, in parallel. If the manager may not do it, a condition says so, and the pass
// doesn't fail: the rights come with the chart's values, and go with them. So it tries again more and more seldom.
func (c *Controller) onClaims(ctx context.Context, w *world, n int, do func(context.Context, int) error) error {
	m := w.Memory
	if n == 0 || w.Now.Before(m.claimsAllowedAt) {
		return nil
	}
	refused := false
	defer func() {
		if !refused {
			m.claimsBackoff, m.claimsAllowedAt = 0, time.Time{}
		}
	}()
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	var mu sync.Mutex
	return kube.ForEach(ctx, kube.MaxParallelism, items, func(ctx context.Context, i int) error {
		err := do(ctx, i)
		if apierrors.IsForbidden(err) {
			mu.Lock()
			defer mu.Unlock()
			if !refused {
				m.claimsBackoff = min(max(2*m.claimsBackoff, shortestForbiddenBackoff), longestForbiddenBackoff)
			}
			refused, m.claimsForbidden, m.claimsAllowedAt = true, err.Error(), w.Now.Add(m.claimsBackoff)
			return nil
		}
		return err
	})
}

// giveWay removes the runners that can't start with their claims, or must not get a job with them; others take their
// places, with other claims.
func (c *Controller) giveWay(ctx context.Context, w *world) {
	reasons := make(map[string]volumeclaims.Replacement, len(w.claims.Replacements))
	for _, replacement := range w.claims.Replacements {
		reasons[replacement.Runner] = replacement
	}
	recorded := sets.New[string]()
	for _, r := range w.views {
		why, gives := reasons[r.Name]
		if !gives || !w.Memory.GiveWay(w.plan, r) {
			continue
		}
		if recorded.Insert(r.Name); !w.leasing.Recorded.Has(r.Name) {
			report.RecordEvent(ctx, c.options.Recorder, w.origin, nil, report.Warning(why.Reason, actionLease, why.Message))
		}
	}
	w.leasing.Recorded = recorded
	w.RequeueAt(w.plan.RequeueAt)
}

// takeLease returns the lease that a new runner gets, and remembers it before the runner's creation is requested. A
// creation that is repeated gets the same lease again, and none if there were no claims when it was first requested.
func (w *world) takeLease(name string, repeated bool) volumeclaims.Lease {
	if w.leasing == nil {
		return volumeclaims.Lease{}
	}
	lease, promised := w.leasing.Promised(name)
	if !promised && !repeated && w.claims != nil && len(w.claims.Leases) > 0 {
		lease, w.claims.Leases = w.claims.Leases[0], w.claims.Leases[1:]
	}
	w.leasing.Promise(name, lease, w.Now)
	return lease
}

// describeClaims writes into the status the number of claims, and what runners wait for.
func (w *world) describeClaims() {
	status, m := &w.Object.Status, w.Memory
	const conditionType = v1alpha1.ConditionVolumeClaimsReady
	if w.leasing == nil && len(w.origin.Spec.VolumeClaimTemplates) == 0 {
		m.publishClaims(nil, nil)
		if status.VolumeClaims = nil; meta.FindStatusCondition(status.Conditions, conditionType) != nil {
			report.SetConditions(&status.Conditions, w.Object.Generation, w.Now,
				report.True(conditionType, "NoClaims", "the scale set has no claims"))
		}
		return
	}
	if w.claims == nil {
		return // it isn't known
	}
	m.publishClaims(w.origin.Spec.VolumeClaimTemplates, w.claims.Counts)
	counts := v1alpha1.VolumeClaimCounts{}
	for _, template := range w.claims.Counts {
		counts.Total += template.Total
		counts.Leased += template.Leased
		counts.Free += template.Free
	}
	status.VolumeClaims = &counts
	condition := report.True(conditionType, "ClaimsReady", "runners get their claims")
	refused, spoiled := w.claimRunners()
	switch {
	case spoiled != nil:
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimNotDeleted,
			fmt.Sprintf("runner %s stays: %s", spoiled.Name, spoiled.Message))
	case refused != nil:
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimRefused,
			fmt.Sprintf("runner %s waits: %s", refused.Name, refused.Message))
	case w.claims.Wait == volumeclaims.WaitForFreeClaim:
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimsExhausted, fmt.Sprintf(
			"%d runners wait for a claim: as many exist as volumeClaimPool.max allows, and none is free; raise max, or set "+
				"whenExhausted to Ephemeral", w.claims.Waiting))
	case w.Now.Before(m.claimsAllowedAt.Add(claimsForbiddenFor)):
		condition = report.False(conditionType, v1alpha1.ReasonVolumeClaimRefused, fmt.Sprintf(
			"the manager may not change the scale set's claims: %s; the chart of the scale set gives it the right "+
				"while its values have volumeClaimTemplates or volumeClaimPool; claims that nobody needs any more: kubectl delete "+
				"persistentvolumeclaims -n %s -l %s=%s",
			m.claimsForbidden, w.origin.Namespace, v1alpha1.LabelScaleSetName, w.origin.Name))
	case w.claims.Wait == volumeclaims.WaitForList:
		return // in a second
	}
	report.SetConditions(&status.Conditions, w.Object.Generation, w.Now, condition)
}

// claimRunners returns the oldest runner that waits for a claim which the API server refuses, and the oldest that stays
// because the manager may not delete its claims; nil if there is none.
func (w *world) claimRunners() (refused, spoiled *roster.Runner) {
	for _, r := range w.views {
		if refused == nil && r.Reason == v1alpha1.ReasonVolumeClaimRefused && r.Alive() && !r.Up() && !r.Deleting {
			refused = r
		}
		if spoiled == nil && r.Reason == v1alpha1.ReasonVolumeClaimNotDeleted && r.Deleting {
			spoiled = r
		}
	}
	return refused, spoiled
}

// Hold reports whether a runner may mount the claims that it names; see leases.Hold.
func (c *Controller) Hold(runner *v1alpha1.EphemeralRunner) bool { return c.leases.Hold(runner) }

// claimsByState has a series for each template and state that a claim has been in.
var claimsByState = setmetrics.Gauge("volume_claims",
	"Claims of volumeClaimTemplates by template and state (leased, free, cloning, deleting, other). Those in state "+
		"other are about to go, or copies are made from them on request. Claims of templates that the scale set has no "+
		"more are those of template (former).", "template", "state")

// claimState is one state of the claims of one template.
type claimState struct{ template, state string }

// publishClaims publishes the number of claims of each template of the spec in each state, which may be 0.
func (m *memory) publishClaims(templates []v1alpha1.VolumeClaimTemplate, claims map[string]volumeclaims.Counts) {
	counts := map[claimState]int{}
	for name, c := range claims {
		if !slices.ContainsFunc(templates, func(t v1alpha1.VolumeClaimTemplate) bool { return t.Metadata.Name == name }) {
			name = "(former)" // which nobody can choose
		}
		for state, count := range map[string]int{"leased": c.Leased, "free": c.Free, "cloning": c.Cloning,
			"deleting": c.Deleting, "other": c.Total - c.Leased - c.Free - c.Cloning - c.Deleting} {
			counts[claimState{name, state}] += count
		}
	}
	for of := range m.publishedClaims {
		if _, still := counts[of]; !still {
			claimsByState.DeleteLabelValues(m.scaleSet.Name, m.scaleSet.Namespace, of.template, of.state)
		}
	}
	for of, count := range counts {
		claimsByState.WithLabelValues(m.scaleSet.Name, m.scaleSet.Namespace, of.template, of.state).Set(float64(count))
	}
	m.publishedClaims = counts
}
