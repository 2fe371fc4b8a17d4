package autoscalingrunnerset

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/cleanupprotection"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/podtemplate"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

// memory is what is remembered of a set between passes.
type memory struct {
	// statusWrittenAt is when the status was last written. A pass that changes nothing doesn't delay the next write.
	statusWrittenAt time.Time
	// deregistrationStart is when the deregistration began, zero while there is none.
	deregistrationStart time.Time
	// lostJobs is the highest count of lost jobs that a runner set had; it may be gone before the count is written.
	lostJobs int
	// size is the set's size as last recorded, nil if it has not been recorded.
	size *scaling
	// shown is what the metrics show.
	shown conditions.Shown
	// revision is the spec's word for the content of the credentials that was last read at its bidding, nil before the first read.
	revision *string
	// accepted identifies the credentials that GitHub last accepted, and confirmed the scale set that it last agreed to; see
	// pass.credentialsHash and scaleset.Result. They are empty until it has, or after it has refused.
	accepted, confirmed string
	// begunHere is set if only this process has ever asked GitHub for anything on behalf of the set.
	begunHere bool
	// kept are the objects that only finalizers of others keep.
	kept kube.Kept
	// template is what has become of pods of the present template.
	template podtemplate.Memory
	// stripped is the last release of the chart whose objects have lost ARC's finalizer.
	stripped cleanupprotection.Release
}

// Pass is one pass of one set.
type Pass = reconcile.Pass[*v1alpha1.AutoscalingRunnerSet, memory]

// world is what a pass has observed, and what its steps have found out for later ones and for the status.
type world struct {
	*Pass
	conditions.Findings
	// holders are the other AutoscalingRunnerSets that hold the registered scale set, or that of the last answer, by its id.
	holders ledger.Holders
	// credentialsHash identifies the credentials in Findings.RequestHash, and where they go. It is empty if that is.
	credentialsHash string
	// released is set when the finalizer is gone, and possibly the object with it.
	released bool
}

// observe reads the objects of the set, all of them from the cache.
func (c *Controller) observe(ctx context.Context, pass *Pass) (*world, error) {
	set := pass.Object
	w := &world{Pass: pass, Findings: conditions.Findings{
		Set: set, ObservedAt: pass.Now, Ceiling: c.options.MaxRunnersPerSet,
		Accepted: c.options.ListenerPolicy.Accept(&set.Spec), Registration: ledger.RegistrationOf(set),
	}}
	w.Unconfirmed = w.Registration != nil && set.Status.Registration == nil
	last, _ := c.syncs.Last(w.Key)
	w.Creating = w.Deleting() && last.Running()
	w.released = w.wasReleased() && len(kube.Keepers(set)) == 0 // otherwise the status says who keeps it
	var err error
	if w.Found, err = c.children.Find(ctx, set); err != nil {
		return nil, err
	}
	w.findBlocked()
	return w, nil
}

// findBlocked finds out whether the set's deletion, or that of an object that belongs to it, is held up by finalizers of others. The
// controllers of these objects look at what they own themselves, and say what they find in conditions. The first finding is the one to report.
func (w *world) findBlocked() {
	w.Memory.kept.Begin()
	look := func(kind string, object client.Object, told []metav1.Condition) {
		if keepers := kube.Keepers(object); len(keepers) > 0 {
			w.Awaited = cmp.Or(w.Awaited, kube.WhyKept(kind, client.ObjectKeyFromObject(object), keepers))
			if wait := w.Memory.kept.Look(object.GetUID(), w.Now); wait > 0 {
				w.Requeue.After(wait)
			} else {
				w.Blocked = cmp.Or(w.Blocked, w.Awaited)
			}
		}
		if c := meta.FindStatusCondition(told, v1alpha1.ConditionDeletionBlocked); c != nil && c.Status == metav1.ConditionTrue {
			w.Blocked = cmp.Or(w.Blocked, c.Message)
		}
	}
	for i := range w.RunnerSets {
		look("EphemeralRunnerSet", &w.RunnerSets[i], w.RunnerSets[i].Status.Conditions)
	}
	for i := range w.Listeners {
		look("AutoscalingListener", &w.Listeners[i], w.Listeners[i].Status.Conditions)
	}
	look("AutoscalingRunnerSet", w.Set, nil)
}

// group returns the set's group in the pool. Groups take turns, so no set's calls keep another's waiting.
func (w *world) group() string { return w.Key.String() }

// wasReleased reports whether a set that is being deleted has lost the manager's finalizer.
func (w *world) wasReleased() bool {
	return w.Deleting() && !slices.Contains(w.Set.Finalizers, v1alpha1.FinalizerAutoscalingRunnerSet)
}

func (w *world) isListening() bool { return w.Deleting() && !w.IsStopped() }

func (w *world) hasRunners() bool { return w.Deleting() && len(w.RunnerSets) > 0 }

func (w *world) isCreating() bool { return w.Creating }
