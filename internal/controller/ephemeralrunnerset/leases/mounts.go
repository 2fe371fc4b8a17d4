package leases

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// MountReasons lists the reasons of Events that say that a node can't mount a volume, or that the controller of
// attachments can't attach it.
var MountReasons = []string{"FailedMount", "FailedAttachVolume"}

// Slow reports whether a pod of a set's runners has had a node, but not its volumes, for as long as after: perhaps the
// node can't mount its claims. due is the time at which the next pod will have waited so long.
func (l *Leases) Slow(scaleSet types.NamespacedName, after time.Duration) (slow bool, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.byScaleSet[scaleSet] {
		its := l.pods[name]
		if its == nil || its.mounted || its.placedAt.IsZero() {
			continue
		}
		if at := its.placedAt.Add(after); at.After(l.clock.Now()) {
			due = kube.EarlierOf(due, at)
		} else {
			slow = true
		}
	}
	return slow, due
}

// RememberMountEvents remembers which pods of a set's runners have claims that their nodes can't attach or mount,
// according to Events with MountReasons. claims are the scale set's. A node tries again and again, and says so each
// time. Only what it still says after volumeclaims.FailureTimeout counts: many a first try fails. Other volumes of a
// pod, such as its token, say nothing about its claims.
func (l *Leases) RememberMountEvents(
	scaleSet types.NamespacedName, found []corev1.Event, claims []corev1.PersistentVolumeClaim,
) {
	volumes := map[types.NamespacedName]string{}
	for i := range claims {
		volumes[types.NamespacedName{Namespace: claims[i].Namespace, Name: claims[i].Name}] = claims[i].Spec.VolumeName
	}
	byPod := byUID(found)
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.byScaleSet[scaleSet] {
		its := l.pods[name]
		if its == nil || its.mounted || its.placedAt.IsZero() {
			continue
		}
		var first, last time.Time // by the clock of who says so
		for _, event := range byPod[its.uid] {
			if names := func(volume, claim string) bool {
				return namesVolume(event.Message, volume, volumes[claimOf(name, claim)])
			}; its.anyVolume(names) {
				from, to := kube.SaidAt(event)
				first, last = kube.EarlierOf(first, from), kube.LaterOf(last, to)
			}
		}
		if lasts := last.Sub(first); lasts >= volumeclaims.FailureTimeout {
			kube.SetIfZero(&its.unmountedAt, l.clock.Now().Add(-lasts))
		}
	}
}

func (p *pod) anyVolume(is func(volume, claim string) bool) bool {
	for volume, claim := range p.volumes {
		if is(volume, claim) {
			return true
		}
	}
	return false
}

// unmountedVolumes begins the list of a kubelet's summary: unmounted volumes=[cache], unattached volumes=[], …
const unmountedVolumes = "unmounted volumes=["

// namesVolume reports whether a message is about a pod's volume of that name, or the PersistentVolume of its claim,
// empty if it has none. Events have no field for the volume, only words: Kubernetes names the PersistentVolume in
// quotation marks, or the pod's volumes in a list.
func namesVolume(message, volume, persistentVolume string) bool {
	if persistentVolume != "" && strings.Contains(message, fmt.Sprintf("%q", persistentVolume)) {
		return true
	}
	_, list, found := strings.Cut(message, unmountedVolumes)
	list, _, closed := strings.Cut(list, "]")
	return found && closed && slices.Contains(strings.Fields(list), volume)
}

// byUID returns Events by the objects that they are about.
func byUID(found []corev1.Event) map[types.UID][]*corev1.Event {
	about := map[types.UID][]*corev1.Event{}
	for i := range found {
		uid := found[i].InvolvedObject.UID
		about[uid] = append(about[uid], &found[i])
	}
	return about
}
