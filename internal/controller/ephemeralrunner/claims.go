package ephemeralrunner

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// errClaimsHeld is why a runner waits whose claims another one has.
var errClaimsHeld = &rules.Failure{Reason: v1alpha1.ReasonVolumeClaimShared, Message: "another runner has its claims; one of the two is replaced"}

// claims is what is remembered of a runner's claims.
type claims struct {
	// idle is set if GitHub has agreed to remove the registration while the runner container had not ended: it had no job, and gets none.
	// Later the consent would prove less, because GitHub itself removes the record of a runner whose job has ended.
	idle bool
	// discarded is set once the claims are deleted.
	discarded bool
}

// mayMount reports whether no other runner has the runner's claims.
func (c *Controller) mayMount(runner *v1alpha1.EphemeralRunner) bool {
	return len(runner.Spec.VolumeClaims) == 0 || c.options.Hold == nil || c.options.Hold(runner)
}

// seeConsent notes that the runner never had a job, if its registration has been removed.
func (c *Controller) seeConsent(w *world, removal rules.Progress) {
	busy := w.Status.HadJob() || w.Status.JobCompleted() || w.Memory.mayHaveJob(&w.Status)
	if removal.Succeeded() && !busy && w.pod != nil && !w.outcome.Over() {
		w.Memory.claims.idle = true
	}
}

// discardClaims deletes the claims of a runner that is about to go, if its job has left what must not be passed on. Until it is gone
// nobody else gets them.
func (c *Controller) discardClaims(ctx context.Context, w *world) error {
	if len(w.Spec.VolumeClaims) == 0 || w.Memory.claims.discarded {
		return nil
	}
	set, err := c.claimedSet(ctx, w)
	if set == nil || err != nil {
		return err // no set that lives has the claims
	}
	runner := &volumeclaims.Runner{
		Started: w.mayHaveRun(),
		Job:     volumeclaims.Job{Never: w.Memory.claims.idle, Event: w.Status.Event, Result: w.Status.JobResult},
	}
	if returns, why := volumeclaims.Returns(set, runner); !returns {
		if err := c.launcher.DiscardClaims(ctx, set, w.EphemeralRunner); err != nil {
			return err
		}
		log.FromContext(ctx).Info("Deleted the runner's claims", "claims", w.Spec.VolumeClaims, "message", why)
	}
	w.Memory.claims.discarded = true
	return nil
}

// claimedSet returns the AutoscalingRunnerSet to which a runner's claims belong, even if it is being deleted, nil if there is none.
func (c *Controller) claimedSet(ctx context.Context, w *world) (*v1alpha1.AutoscalingRunnerSet, error) {
	owner := metav1.GetControllerOfNoCopy(w)
	if owner == nil || owner.Kind != "EphemeralRunnerSet" {
		return nil, nil
	}
	runnerSet := &v1alpha1.EphemeralRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, runnerSet, client.UnsafeDisableDeepCopy)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("get EphemeralRunnerSet: %w", err)
	}
	return c.origin(ctx, runnerSet)
}

// mayHaveRun reports whether a container of the runner may have started: what nobody has seen counts as if it had.
func (w *world) mayHaveRun() bool {
	status, m := &w.Status, w.Memory
	switch {
	case !m.StartedAt.IsZero(), status.HadJob(), status.JobCompleted(), status.Done(), status.Phase == v1alpha1.EphemeralRunnerPhaseRunning, rules.AttemptsNoted(status) > 0:
		return true
	case w.pod != nil:
		return w.outcome.Phase != podstatus.Pending
	}
	return m.inherited || m.launch.WasAsked() || m.pod.uid != ""
}
