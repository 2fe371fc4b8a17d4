package claims

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/leases"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
	"github.com/harrier-ci/harrier/internal/volumeclaims/waiting"
)

const (
	// Where volumes can be used is read when a pod with claims has had no node for waiting.Grace: volumesAtOnce of them
	// in a pass, and each a single time. While the manager may not read them it tries again every volumesForbiddenFor.
	volumesAtOnce       = 50
	volumesForbiddenFor = time.Hour
	// What autoscalers and provisioners say is asked every waitEventsInterval while it matters to a pod.
	waitEventsInterval = 30 * time.Second
)

// findPlaces finds out where the volumes of a set's claims can be used, while a pod with one has no node, and what is
// said of that pod. Nothing is asked while pods get their nodes.
func (c *Claims) findPlaces(
	ctx context.Context, p *pass.Pass, set *leases.Set, claims []corev1.PersistentVolumeClaim,
) {
	scaleSet := client.ObjectKeyFromObject(p.Origin)
	waits, due := c.options.Leases.Unplaced(scaleSet, waiting.Grace)
	p.RequeueAt(due)
	set.KeepPlaces(claims)
	if len(waits) == 0 {
		return
	}
	c.readVolumes(ctx, p, set, claims)
	matters := slices.ContainsFunc(claims, func(claim corev1.PersistentVolumeClaim) bool {
		place, known := set.Places[claim.UID]
		empty := known && place.In(c.options.Nodes) == places.Empty
		return slices.Contains(waits, claim.Name) && (empty || claim.Status.Phase == corev1.ClaimPending)
	})
	if matters && isDue(p, &set.WaitEventsAt, waitEventsInterval) {
		c.options.Leases.RememberWaitEvents(scaleSet, c.eventsOf(ctx, p, leases.WaitReasons), claims)
	}
}

// isDue reports whether what is asked once an interval, next at at, is due in this pass, and has the next pass come in
// time. If it is due, at becomes the time after it.
func isDue(p *pass.Pass, at *time.Time, interval time.Duration) bool {
	p.RequeueAt(kube.LaterOf(*at, p.Now.Add(interval)))
	if p.Now.Before(*at) {
		return false
	}
	*at = p.Now.Add(interval)
	return true
}

// readVolumes reads the volumes of claims whose place is not known yet.
func (c *Claims) readVolumes(
	ctx context.Context, p *pass.Pass, set *leases.Set, claims []corev1.PersistentVolumeClaim,
) {
	var unread []*corev1.PersistentVolumeClaim
	for i := range claims {
		_, known := set.Places[claims[i].UID]
		if !known && claims[i].Status.Phase == corev1.ClaimBound && claims[i].Spec.VolumeName != "" {
			unread = append(unread, &claims[i])
		}
	}
	if c.options.Nodes == nil || len(unread) == 0 || p.Now.Before(set.VolumesAt) {
		return // without nodes it would tell nothing
	}
	if len(unread) > volumesAtOnce {
		unread = unread[:volumesAtOnce]
		p.RequeueAt(p.Now.Add(time.Second))
	}
	var mu sync.Mutex
	err := kube.ForEach(ctx, kube.MaxParallelism, unread,
		func(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
			var volume corev1.PersistentVolume
			err := c.options.Reader.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, &volume)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			var place places.Place // none, if there is no such volume or it is another claim's
			if ref := volume.Spec.ClaimRef; err == nil && ref != nil && ref.UID == claim.UID {
				place = places.OfVolume(&volume)
			}
			mu.Lock()
			defer mu.Unlock()
			set.Places[claim.UID] = place
			return nil
		})
	switch {
	case apierrors.IsForbidden(err):
		set.VolumesAt = p.Now.Add(volumesForbiddenFor)
		log.FromContext(ctx).Info("Volumes can't be read, so it isn't known in which zones and on which nodes they are: "+
			"runners wait for pendingTimeout where nodes are gone; let the manager's ClusterRole get persistentvolumes, as "+
			"the chart does", "cause", err.Error())
	case err != nil:
		log.FromContext(ctx).Error(err, "Can't read the volumes of claims, trying again")
	}
}

// place gives claims the places that are known.
func place(seen *volumeclaims.World, set *leases.Set) {
	for i := range seen.Claims {
		if place := set.Places[seen.Claims[i].UID]; place.Known() {
			seen.Claims[i].Place = place
		}
	}
}

// eventsOf returns the Events in the scale set's namespace with one of the reasons. Without the right there are none.
func (c *Claims) eventsOf(ctx context.Context, p *pass.Pass, reasons []string) []corev1.Event {
	found, err := kube.EventsOf(ctx, c.options.Reader, p.Origin.Namespace, reasons)
	if err != nil {
		log.FromContext(ctx).Error(err, "Can't list Events about pods and their claims, asking again")
	}
	return found
}

// AwaitPlace returns the names of runners whose pods wait for a node where there is none, since their volumes can be
// used nowhere else.
func (l *Lease) AwaitPlace() sets.Set[string] {
	if l.decision == nil {
		return nil
	}
	return l.decision.AwaitPlace
}
