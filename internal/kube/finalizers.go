package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// served are the finalizers that this manager's controllers remove when they are done with an object, ARC's among them.
var served = []string{
	v1alpha1.FinalizerAutoscalingRunnerSet, v1alpha1.FinalizerAutoscalingListener, v1alpha1.FinalizerEphemeralRunner,
	v1alpha1.FinalizerRunnerRegistration, v1alpha1.FinalizerFormerRunnerSet,
}

// IsOurFinalizer reports whether the manager removes the finalizer in the end. All others are for those who have set them.
func IsOurFinalizer(finalizer string) bool { return slices.Contains(served, finalizer) }

// Keepers returns the finalizers that keep an object in deletion with which the manager is done, nil for any other object.
func Keepers(object client.Object) []string {
	finalizers := object.GetFinalizers()
	if object.GetDeletionTimestamp() == nil || slices.ContainsFunc(finalizers, IsOurFinalizer) {
		return nil
	}
	return finalizers
}

// PodKeepers returns the finalizers that keep a pod in deletion after its containers have ended, or before it has got a node.
func PodKeepers(pod *corev1.Pod) []string {
	if over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; over || pod.Spec.NodeName == "" {
		return Keepers(pod)
	}
	return nil
}

// KeptAfter is how long others may keep an object before somebody is told. Whoever still serves a finalizer removes it in a second or two,
// or after a restart that takes a quarter of a minute. What blocks a deletion is to be told within a minute, which leaves as long again
// to those that have to look for it.
const KeptAfter = 20 * time.Second

// Kept remembers since when objects have been kept by nothing but others' finalizers. The zero value is ready for use. After a restart
// of the manager the time begins anew.
type Kept struct{ since, before map[types.UID]time.Time }

// Begin begins a pass: what the pass doesn't look at is forgotten.
func (k *Kept) Begin() { k.since, k.before = map[types.UID]time.Time{}, k.since }

// Look is called for each object that has keepers. It returns how long to wait before it is told, zero or less once it is to be told.
func (k *Kept) Look(uid types.UID, now time.Time) time.Duration {
	since, known := k.before[uid]
	if !known {
		since = now
	}
	k.since[uid] = since
	return since.Add(KeptAfter).Sub(now)
}

// quotedFinalizers is how many characters of finalizers a message has, which leaves room for the next step. One may have 317.
const quotedFinalizers = 340

// WhyKept says who keeps an object of a kind, and what to do about it.
func WhyKept(kind string, key types.NamespacedName, keepers []string) string {
	return fmt.Sprintf("%s %s is deleted, and nothing of it is left to do but for its finalizers %s, which the controller doesn't serve: %s",
		kind, key, quoteFinalizers(keepers), nextStep(strings.ToLower(kind), key, keepers))
}

// nextStep says what to do about finalizers that keep an object. The garbage collector serves its own: it waits for other objects.
func nextStep(kind string, key types.NamespacedName, keepers []string) string {
	collectors := []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}
	if !slices.ContainsFunc(keepers, func(f string) bool { return !slices.Contains(collectors, f) }) {
		return fmt.Sprintf("they are the garbage collector's of the cluster, which waits for objects that %s %s owns; find out what keeps those, or, if the cluster has no "+
			"garbage collector that works, %s", kind, key.Name, removal(kind, key))
	}
	return "find out why the program that set them doesn't remove them; if there is no such program any more, " + removal(kind, key)
}

// removal is the command after which no finalizer keeps an object. The manager's own are gone by then.
func removal(kind string, key types.NamespacedName) string {
	return fmt.Sprintf(`run kubectl patch %s %s --namespace %s --type merge --patch '{"metadata":{"finalizers":null}}'`, kind, key.Name, key.Namespace)
}

// quoteFinalizers lists as many finalizers as fit into quotedFinalizers, at least one.
func quoteFinalizers(finalizers []string) string {
	text := finalizers[0]
	for i, next := range finalizers[1:] {
		if len(text)+len(next) > quotedFinalizers {
			return fmt.Sprintf("%s and %d more", text, len(finalizers)-i-1)
		}
		text += ", " + next
	}
	return text
}
