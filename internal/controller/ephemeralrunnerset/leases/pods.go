package leases

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// pod is a pod that mounts claims and has not ended. Times are by our own clock.
type pod struct {
	uid, owner types.UID
	claims     []string
	volumes    map[string]string // the claims by the names of its volumes
	placedAt   time.Time         // when it was first seen to have a node
	unplacedAt time.Time         // when the scheduler was first seen to find none for it
	node       string            // the one that it has
	// announced is set if an autoscaler has said that it makes a node for it, denied if the last word was that none can.
	// Since unprovisionedAt a provisioner has been unable to make a volume for it, zero if that is not known.
	announced, denied bool
	unprovisionedAt   time.Time
	// mounted is set when all its volumes have been mounted, and up when its runner container has started.
	mounted, up bool
	// Since unmountedAt its node has been unable to attach or mount one of its claims, zero if it is not known to be.
	unmountedAt time.Time
}

// PodEvents returns the handler for the watch of pods. changed is called with the runner of each pod that has become of
// interest for another one's claims. It is exported for tests that simulate the watch.
func (l *Leases) PodEvents(changed func(q reconcile.Queue, runner types.NamespacedName)) handler.EventHandler {
	return reconcile.Seen(func(q reconcile.Queue, object client.Object, gone bool) {
		if pod, ok := object.(*corev1.Pod); ok && l.rememberPod(pod, gone) {
			changed(q, client.ObjectKeyFromObject(pod))
		}
	})
}

// rememberPod remembers a pod as it is now, and reports whether that changes what a plan knows.
func (l *Leases) rememberPod(object *corev1.Pod, gone bool) (news bool) {
	key, claims := client.ObjectKeyFromObject(object), volumeclaims.MountedBy(object)
	gone = gone || len(claims) == 0
	now := pod{uid: object.UID, claims: claims, volumes: volumeclaims.VolumesOf(object)}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		now.owner = owner.UID
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if owner := l.runners[key]; owner != nil && owner.uid == now.owner { // also by the last sign of a pod that has ended
		its := podstatus.Of(object, v1alpha1.RunnerContainerName, l.clock.Now())
		owner.Started = owner.Started || its.Started()
		if used := volumeclaims.UsedPercent(object); used != nil {
			owner.UsedPercent = used
		}
	}
	before := l.pods[key]
	if before != nil && (gone || before.uid != object.UID) {
		l.forgetPodLocked(key, before)
		before, news = nil, true
	}
	if gone {
		return news
	}
	if before != nil {
		now = *before
	}
	if now.see(object, l.clock.Now()); before != nil && now.as(before) {
		return false
	}
	l.pods[key] = &now
	for _, name := range claims {
		l.mounts.insert(claimOf(key, name), key)
	}
	return true
}

// Stranger remembers the claims that a pod mounts which is no scale set's, until it has ended or is gone: no runner gets
// them meanwhile.
func (l *Leases) Stranger(object *corev1.Pod, gone bool) {
	key := client.ObjectKeyFromObject(object)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.strangers[key] {
		l.strange.delete(claimOf(key, name), key)
	}
	delete(l.strangers, key)
	claims := volumeclaims.MountedBy(object)
	if gone || len(claims) == 0 {
		return
	}
	l.strangers[key] = claims
	for _, name := range claims {
		l.strange.insert(claimOf(key, name), key)
	}
}

// forgetPodLocked forgets a pod that has ended or is gone. The caller holds the lock.
func (l *Leases) forgetPodLocked(key types.NamespacedName, of *pod) {
	for _, name := range of.claims {
		l.mounts.delete(claimOf(key, name), key)
	}
	delete(l.pods, key)
}

// as reports whether a plan sees no difference between two states of a pod.
func (p *pod) as(other *pod) bool {
	return p.placedAt.Equal(other.placedAt) && p.unplacedAt.Equal(other.unplacedAt) &&
		p.unmountedAt.Equal(other.unmountedAt) && p.node == other.node &&
		p.mounted == other.mounted && p.up == other.up
}

// see adds what is seen of the pod for the first time. While a gate keeps it from the scheduler it waits for whoever
// set that, such as a queue, and not for a node.
func (p *pod) see(object *corev1.Pod, now time.Time) {
	p.up = p.up || podstatus.Runs(object, v1alpha1.RunnerContainerName)
	if p.mounted = p.mounted || p.up || podstatus.HasVolumes(object); p.mounted {
		p.unmountedAt = time.Time{}
	}
	scheduled := kube.PodCondition(object, corev1.PodScheduled)
	switch {
	case object.Spec.NodeName != "":
		kube.SetIfZero(&p.placedAt, now)
		p.node, p.unplacedAt, p.unprovisionedAt = object.Spec.NodeName, time.Time{}, time.Time{}
	case len(object.Spec.SchedulingGates) > 0:
		p.unplacedAt = time.Time{}
	case scheduled != nil && scheduled.Status == corev1.ConditionFalse:
		kube.SetIfZero(&p.unplacedAt, now)
		p.announced = p.announced || object.Status.NominatedNodeName != "" // others make room for it
	}
}
