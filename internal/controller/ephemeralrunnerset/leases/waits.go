package leases

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/kube"
)

// Reasons of Events that say what becomes of a pod without a node.
const (
	announcedByClusterAutoscaler = "TriggeredScaleUp"
	announcedByKarpenter         = "Nominated"
	deniedByClusterAutoscaler    = "NotTriggerScaleUp"
)

// WaitReasons lists the reasons of Events by which autoscalers and provisioners say whether a pod will get a node and a
// volume.
var WaitReasons = []string{announcedByClusterAutoscaler, announcedByKarpenter, deniedByClusterAutoscaler,
	kube.EventProvisioningFailed, kube.EventFailedBinding}

// Unplaced returns the claims of a set's runners whose pods have had no node for as long as after, by their names. due
// is the time at which the next pod will have waited so long.
func (l *Leases) Unplaced(scaleSet types.NamespacedName, after time.Duration) (claims []string, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.byScaleSet[scaleSet] {
		its := l.pods[name]
		if its == nil || its.unplacedAt.IsZero() {
			continue
		}
		if at := its.unplacedAt.Add(after); at.After(l.clock.Now()) {
			due = kube.EarlierOf(due, at)
		} else {
			claims = append(claims, its.claims...)
		}
	}
	return claims, due
}

// RememberWaitEvents remembers what Events with WaitReasons say of a set's pods that have no node, and of their claims,
// which are given by UID. Of what an autoscaler says of a pod the last word counts.
func (l *Leases) RememberWaitEvents(
	scaleSet types.NamespacedName, found []corev1.Event, claims []corev1.PersistentVolumeClaim,
) {
	about := byUID(found)
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.byScaleSet[scaleSet] {
		its := l.pods[name]
		if its == nil || its.unplacedAt.IsZero() {
			continue
		}
		its.hearAutoscalers(about[its.uid])
		for i := range claims {
			ours := claims[i].Namespace == name.Namespace && slices.Contains(its.claims, claims[i].Name)
			if ours && claims[i].Spec.VolumeName == "" {
				its.hearProvisioner(about[claims[i].UID])
			}
		}
	}
}

// hearAutoscalers remembers what autoscalers have said of a pod last.
func (p *pod) hearAutoscalers(said []*corev1.Event) {
	var latest time.Time
	for _, event := range said {
		_, last := kube.SaidAt(event)
		denied := event.Reason == deniedByClusterAutoscaler
		makes := event.Reason == announcedByClusterAutoscaler || event.Reason == announcedByKarpenter
		if (denied || makes) && last.After(latest) {
			latest, p.denied, p.announced = last, denied, makes
		}
	}
}

// hearProvisioner remembers that a volume for the pod can't be made.
func (p *pod) hearProvisioner(said []*corev1.Event) {
	for _, event := range said {
		if event.Reason == kube.EventProvisioningFailed || event.Reason == kube.EventFailedBinding {
			kube.SetIfZero(&p.unprovisionedAt, p.unplacedAt)
		}
	}
}
