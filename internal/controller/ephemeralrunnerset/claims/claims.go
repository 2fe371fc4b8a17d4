// Package claims gives each new runner of a scale set its volume claims, and takes care of those that nobody uses: it
// carries out what internal/volumeclaims decides about what package leases has seen. The controller of runner sets asks
// it between plan and creations, and takes a lease for each creation.
package claims

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/bystanders"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

const (
	// Runners that the watch should have shown are waited for so long before it is looked again.
	unseenInterval = time.Second
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
	// After the API server has forbidden to change a claim, none is changed for shortestForbiddenBackoff, doubling up to
	// longestForbiddenBackoff.
	shortestForbiddenBackoff = time.Minute
	longestForbiddenBackoff  = time.Hour
	// reasonClaimDiscarded is the reason of the Event about a claim that no pod could use.
	reasonClaimDiscarded = "VolumeClaimDiscarded"
	actionLease          = "LeaseClaims"
)

// IndexByScaleSet is the index of claims by the name of their scale set, which the manager's cache has; see ScaleSetOf.
const IndexByScaleSet = "scaleSet"

// ScaleSetOf returns the value of a claim in that index.
func ScaleSetOf(claim client.Object) []string {
	return []string{claim.GetLabels()[v1alpha1.LabelScaleSetName]}
}

// Options are what claims are leased with.
type Options struct {
	// Client reads from the manager's cache and writes to the API server. Reader reads from the API server.
	Client   client.Client
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Nodes are those that a watch has shown, nil if there is none.
	Nodes *nodes.Watched
	// Leases know who uses the claims, and Roster which runners the watch has shown.
	Leases *leases.Leases
	Roster *roster.Roster
	// Requested returns the names of the runners that the runner sets of a scale set have requested and no watch has
	// shown.
	Requested func(ctx context.Context, origin *v1alpha1.AutoscalingRunnerSet) []string
	// Bystanders watch the pods of others, which may mount claims.
	Bystanders *bystanders.Bystanders
	// Newest returns the suffix of the snapshots that new claims of a runner set are copies of, in mode Snapshot, and
	// false while it isn't known.
	Newest func(set types.UID) (suffix string, known bool)
}

// Claims leases the claims of scale sets.
type Claims struct {
	options  Options
	memories pass.Memories[memory]
}

// memory is what is remembered of one runner set.
type memory struct {
	// noFreeClaim: the last pass that decided about claims found none for runners that are to be created.
	noFreeClaim bool
	series      series
	// forbidden says why the manager might not change a claim. It tries again at allowedAt, after backoff.
	forbidden string
	allowedAt time.Time
	backoff   time.Duration
}

// New returns Claims that remember no set.
func New(options Options) *Claims { return &Claims{options: options} }

// Forget drops what is remembered of a runner set that is gone.
func (c *Claims) Forget(set types.UID) { c.memories.Forget(set) }

// Exhausted reports whether runners were not created because as many claims exist as may, and none is free.
func (c *Claims) Exhausted(set types.UID) bool { return c.memories.Of(set).noFreeClaim }

// Need is what a pass's plan needs claims for.
type Need struct {
	// Create counts the runners that are to be created. Repeated counts those of them whose creation is repeated: these
	// have their leases.
	Create, Repeated int
	// GiveWay removes a runner, and returns false if it has a job, or has ended: then it stays.
	GiveWay func(*roster.Runner) bool
}

// Lease is what a pass may do with the claims of its scale set.
type Lease struct {
	// Create is the number of runners that may be created.
	Create int

	memory   *memory
	scaleSet types.NamespacedName
	// set is the memory of the scale set's claims, nil if it has none or another runner set's pass has it; decision is
	// the decision about them, nil if there was none.
	set      *leases.Set
	decision *volumeclaims.Decision
}

// Decide decides about the scale set's claims, and does what must be done before runners are created: see
// volumeclaims.Decision. What it returns is good even with an error: runners whose leases are known may be created. End
// must be called after that.
func (c *Claims) Decide(ctx context.Context, p *pass.Pass, need Need) (*Lease, error) {
	l := &Lease{Create: need.Create, memory: c.memories.Of(p.Set.UID), scaleSet: p.ScaleSet}
	claims, err := c.Of(ctx, p.Origin)
	if err == nil && len(claims)+len(p.Origin.Spec.VolumeClaimTemplates) == 0 {
		l.memory.noFreeClaim = false
		return l, nil
	}
	wanted := max(0, need.Create-need.Repeated)
	l.Create -= wanted
	if l.set = c.options.Leases.Of(client.ObjectKeyFromObject(p.Origin)); l.set == nil {
		l.Create = 0 // what was promised to creations that are repeated is not known either
		p.RequeueAt(p.Now.Add(claimsTakenInterval))
		return l, err
	}
	if err == nil {
		err = c.lease(ctx, p, l, claims, wanted, need.GiveWay)
	}
	return l, err
}

// End ends the use of the scale set's claims by this pass.
func (l *Lease) End() {
	if l.set != nil {
		l.set.End()
	}
}

// Of returns the claims with a scale set's labels, as the cache has them. They must not be changed.
func (c *Claims) Of(
	ctx context.Context, origin *v1alpha1.AutoscalingRunnerSet,
) ([]corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	err := c.options.Client.List(ctx, &list, client.InNamespace(origin.Namespace),
		client.MatchingFields{IndexByScaleSet: origin.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return list.Items, nil
}

// lease decides about the scale set's claims and carries that out, but for the leases: these go with the runners, whose
// creations follow. Records and deletions come before replacements: see volumeclaims.Decision.
func (c *Claims) lease(
	ctx context.Context, p *pass.Pass, l *Lease, claims []corev1.PersistentVolumeClaim, wanted int,
	giveWay func(*roster.Runner) bool,
) error {
	if err := c.listForLeases(ctx, p, l.set); err != nil {
		return err
	}
	c.askAboutMounts(ctx, p, l.set, claims)
	c.findPlaces(ctx, p, l.set, claims)
	seen := c.options.Leases.World(p.Origin, claims)
	place(&seen, l.set)
	seen.Nodes = c.options.Nodes
	seen.Expected = c.expected(ctx, p, l.set)
	seen.Listed = c.options.Bystanders.Shown(p.Set, p.Now) && l.set.Listed()
	if p.Origin.Spec.OfSnapshots() {
		newest, known := c.options.Newest(p.Set.UID)
		seen.Snapshot, seen.Listed = newest, seen.Listed && known
	}
	decision := l.set.Observe(&seen).Plan(wanted)
	l.set.Follow(&decision, p.Now)
	l.Create += len(decision.Leases)
	l.decision, l.memory.noFreeClaim = &decision, decision.Wait == volumeclaims.WaitForFreeClaim
	p.RequeueAt(decision.RequeueAt)
	switch decision.Wait {
	case volumeclaims.WaitForList:
		p.RequeueAt(p.Now.Add(unseenInterval))
	case volumeclaims.WaitForFreeClaim: // some may count that have never been created
		p.RequeueAt(p.Now.Add(claimsListInterval))
	}
	if err := errors.Join(c.recordOnClaims(ctx, p, l, claims), c.deleteClaims(ctx, p, l)); err != nil {
		return err
	}
	c.giveWay(ctx, p, l, giveWay)
	return nil
}

// expected returns the names of runners of the scale set that exist or may exist and that no watch has shown: of
// this set and of those that it replaces.
func (c *Claims) expected(ctx context.Context, p *pass.Pass, set *leases.Set) []string {
	expected := set.Awaited(func(name string) bool {
		return c.options.Roster.SetOf(types.NamespacedName{Namespace: p.Set.Namespace, Name: name}).UID != ""
	})
	return append(expected, c.options.Requested(ctx, p.Origin)...)
}

// listForLeases asks the API server which runners and claims there are, before this process gives the first claim to a
// runner and whenever a claim or runner that should have been seen has not: an earlier process may have leased what the
// cache shows as free.
func (c *Claims) listForLeases(ctx context.Context, p *pass.Pass, set *leases.Set) error {
	overdue := set.Overdue(p.Now)
	if set.Listed() && (p.Now.Before(set.ListAt) ||
		(len(overdue) == 0 && len(set.Awaited(func(string) bool { return false })) == 0)) {
		return nil
	}
	labelled := []client.ListOption{client.InNamespace(p.Origin.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: p.Origin.Name}}
	runners, err := kube.ListMetadata(ctx, c.options.Reader, "EphemeralRunner", labelled...)
	if err != nil {
		return err
	}
	existing, err := kube.ListMetadataOf(ctx, c.options.Reader,
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), labelled...)
	if err != nil {
		return err
	}
	var unseen []string
	for i := range runners {
		if c.options.Roster.SetOf(client.ObjectKeyFromObject(&runners[i])).UID == "" {
			unseen = append(unseen, runners[i].Name)
		}
	}
	var claims []volumeclaims.Claim
	names := sets.New[string]()
	for i := range existing {
		names.Insert(existing[i].Name)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: existing[i].ObjectMeta}
		if claim, ours := volumeclaims.ClaimOf(p.Origin, claim); ours {
			claims = append(claims, claim)
		}
	}
	set.List(claims, unseen, c.options.Clock.Now(), claimsListInterval)
	set.Settle(overdue, names, c.options.Clock.Now())
	return nil
}

// askAboutMounts finds out which of the set's slow pods have claims that their nodes can't attach or mount. No pod's
// status says so, only Events do: they are read while there are such pods. Without an answer the pendingTimeout of
// runners ends the wait.
func (c *Claims) askAboutMounts(
	ctx context.Context, p *pass.Pass, set *leases.Set, claims []corev1.PersistentVolumeClaim,
) {
	scaleSet := client.ObjectKeyFromObject(p.Origin)
	slow, due := c.options.Leases.Slow(scaleSet, slowStartGrace)
	p.RequeueAt(due)
	if !slow {
		return
	}
	if isDue(p, &set.EventsAt, mountEventsInterval) {
		c.options.Leases.RememberMountEvents(scaleSet, c.eventsOf(ctx, p, leases.MountReasons), claims)
	}
}

// recordOnClaims writes to the claims what must be remembered of the decision for longer than this process lives.
func (c *Claims) recordOnClaims(
	ctx context.Context, p *pass.Pass, l *Lease, claims []corev1.PersistentVolumeClaim,
) error {
	byUID := make(map[types.UID]*corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		byUID[claims[i].UID] = &claims[i]
	}
	return l.memory.onClaims(ctx, p, len(l.decision.Records), func(ctx context.Context, i int) error {
		record := l.decision.Records[i]
		before := byUID[record.UID]
		after := before.DeepCopy()
		record.WriteTo(after, p.Origin)
		err := c.options.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err = kube.IgnoreOvertaken(err); err != nil {
			err = fmt.Errorf("write %s of claim %s: %w", record.Key, record.Claim, err)
		}
		return err
	})
}

// deleteClaims deletes the claims that go, and tells why.
func (c *Claims) deleteClaims(ctx context.Context, p *pass.Pass, l *Lease) error {
	return l.memory.onClaims(ctx, p, len(l.decision.Deletions), func(ctx context.Context, i int) error {
		gone := l.decision.Deletions[i]
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Origin.Namespace, Name: gone.Name}}
		err := c.options.Client.Delete(ctx, claim, client.Preconditions{UID: &gone.UID})
		if err = kube.IgnoreOvertaken(err); err != nil {
			return fmt.Errorf("delete claim %s: %w", gone.Name, err)
		}
		deleted.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace, string(gone.Why)).Inc()
		log.FromContext(ctx).Info("Deleted a claim", "claim", gone.Name, "reason", gone.Why, "message", gone.Message)
		if gone.Why == volumeclaims.Discarded || gone.Why == volumeclaims.VolumeLost {
			report.RecordEvent(ctx, c.options.Recorder, p.Origin, nil,
				report.Warning(reasonClaimDiscarded, actionLease, gone.Message+"; new claims take its place"))
		}
		return nil
	})
}

// onClaims does something with claims, in parallel. If the manager may not do it, a condition says so, and the pass
// doesn't fail: the rights come with the chart's values, and go with them. So it tries again more and more seldom.
func (m *memory) onClaims(ctx context.Context, p *pass.Pass, n int, do func(context.Context, int) error) error {
	if n == 0 || p.Now.Before(m.allowedAt) {
		return nil
	}
	refused := false
	defer func() {
		if !refused {
			m.backoff, m.allowedAt = 0, time.Time{}
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
				m.backoff = min(max(2*m.backoff, shortestForbiddenBackoff), longestForbiddenBackoff)
			}
			refused, m.forbidden, m.allowedAt = true, err.Error(), p.Now.Add(m.backoff)
			return nil
		}
		return err
	})
}

// giveWay removes the runners that can't start with their claims, or must not get a job with them; others take their
// places, with other claims.
func (c *Claims) giveWay(ctx context.Context, p *pass.Pass, l *Lease, giveWay func(*roster.Runner) bool) {
	reasons := make(map[string]volumeclaims.Replacement, len(l.decision.Replacements))
	for _, replacement := range l.decision.Replacements {
		reasons[replacement.Runner] = replacement
	}
	recorded := sets.New[string]()
	for _, r := range p.Runners {
		why, gives := reasons[r.Name]
		if !gives || !giveWay(r) {
			continue
		}
		if recorded.Insert(r.Name); !l.set.Recorded.Has(r.Name) {
			replaced.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace, why.Reason).Inc()
			report.RecordEvent(ctx, c.options.Recorder, p.Origin, nil, report.Warning(why.Reason, actionLease, why.Message))
		}
	}
	l.set.Recorded = recorded
}

// Take returns the lease that a new runner gets, and remembers it before the runner's creation is requested. A
// creation that is repeated gets the same lease again, and none if there were no claims when it was first requested.
func (l *Lease) Take(name string, repeated bool, now time.Time) volumeclaims.Lease {
	if l.set == nil {
		return volumeclaims.Lease{}
	}
	lease, promised := l.set.Promised(name)
	if !promised && !repeated && l.decision != nil && len(l.decision.Leases) > 0 {
		lease, l.decision.Leases = l.decision.Leases[0], l.decision.Leases[1:]
		if lease.Content != "" {
			leased.WithLabelValues(l.scaleSet.Name, l.scaleSet.Namespace, string(lease.Content)).Inc()
		}
	}
	l.set.Promise(name, lease, now)
	return lease
}
