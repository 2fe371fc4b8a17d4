// Package keepers says in the status of a set which of its runners can't be deleted because finalizers of others keep them
// or their pods.
package keepers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// Keepers finds what keeps the runners of sets.
type Keepers struct {
	client client.Reader
	// memories have the runners that are kept, of each set.
	memories pass.Memories[kube.Kept]
}

// New returns Keepers that read pods from the manager's cache.
func New(cache client.Reader) *Keepers { return &Keepers{client: cache} }

// Forget drops what is remembered of a set that is gone.
func (k *Keepers) Forget(set types.UID) { k.memories.Forget(set) }

// Describe returns the condition with the number of the set's runners that can't be deleted because finalizers of others
// keep them or their pods, and with the keepers of the first one. No event of a runner tells what becomes of its pod,
// so the set is looked at again. A condition that was never true is left out.
func (k *Keepers) Describe(ctx context.Context, p *pass.Pass) []metav1.Condition {
	kept := k.memories.Of(p.Set.UID)
	kept.Begin()
	blocked, first := 0, ""
	for _, r := range p.Runners {
		if !r.Deleting && !r.Ended() && (r.Up() || r.Reason == "") {
			continue // nothing of it is being deleted
		}
		kind, keepers := "EphemeralRunner", strings.Fields(r.Keepers)
		if pod := k.podOf(ctx, p.Set.Namespace, r); len(keepers) == 0 && pod != nil {
			p.RequeueAt(p.Now.Add(kube.KeptGrace))
			kind, keepers = "Pod", kube.PodKeepers(pod)
		}
		if len(keepers) == 0 {
			continue
		}
		if wait := kept.Look(r.UID+types.UID(kind), p.Now); wait > 0 {
			p.RequeueAt(p.Now.Add(wait))
			continue
		}
		if blocked++; blocked == 1 {
			first = kube.WhyKept(kind, types.NamespacedName{Namespace: p.Set.Namespace, Name: r.Name}, keepers)
		}
	}
	if blocked > 1 {
		first = fmt.Sprintf("%d runners can't be deleted; the first: %s", blocked, first)
	}
	switch {
	case blocked > 0:
		return []metav1.Condition{report.True(v1alpha1.ConditionDeletionBlocked, v1alpha1.ReasonForeignFinalizers,
			first)}
	case meta.FindStatusCondition(p.Set.Status.Conditions, v1alpha1.ConditionDeletionBlocked) != nil:
		return []metav1.Condition{report.False(v1alpha1.ConditionDeletionBlocked, "NothingKept",
			"no runner is kept by finalizers of others")}
	}
	return nil
}

// podOf returns a runner's pod as the cache has it, nil if there is none.
func (k *Keepers) podOf(ctx context.Context, namespace string, r *roster.Runner) *corev1.Pod {
	pod := &corev1.Pod{}
	err := k.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: r.Name}, pod,
		client.UnsafeDisableDeepCopy)
	if owner := metav1.GetControllerOfNoCopy(pod); err != nil || owner == nil || owner.UID != r.UID {
		return nil
	}
	return pod
}
