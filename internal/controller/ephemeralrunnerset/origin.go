package ephemeralrunnerset

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

const (
	// A runner set may differ from its AutoscalingRunnerSet for differsGrace; then its conditions say so. After a
	// change of the AutoscalingRunnerSet it does for milliseconds.
	differsGrace = 10 * time.Second
	// A runner set that differs is looked at again every differsInterval without an event.
	differsInterval = 10 * time.Second
)

// hold leaves the runners of a set that differs as they are, and says why. The AutoscalingRunnerSet's pass restores the
// set.
func (c *Controller) hold(ctx context.Context, w *world) error {
	set := w.Object
	if w.abandonedErr != nil {
		return w.abandonedErr
	}
	if kube.SetIfZero(&w.Memory.differsSince, w.Now) {
		log.FromContext(ctx).Info("No runners are created while the set differs from its AutoscalingRunnerSet",
			"difference",
			w.difference)
	}
	if reportAt := w.Memory.differsSince.Add(differsGrace); w.Now.Before(reportAt) {
		w.RequeueAt(reportAt)
		return nil
	}
	w.RequeueAt(w.Now.Add(differsInterval))
	before := set.DeepCopy()
	message := fmt.Sprintf("EphemeralRunnerSet %s is not what the manager wrote: %s; no runner is created until the "+
		"manager has restored it. If it stays so, the conditions of the AutoscalingRunnerSet say why it can't",
		set.Name, w.difference)
	report.SetConditions(&set.Status.Conditions, set.Generation, w.Now,
		append(report.Unready(v1alpha1.ReasonRunnerSpecDiffers, message, false),
			report.True(v1alpha1.ConditionDegraded, v1alpha1.ReasonRunnerSpecDiffers, message))...)
	return c.writeStatus(ctx, w, before)
}

// A runner set that no AutoscalingRunnerSet owns came from a backup, which loses owners or has those of another time or
// cluster, or was made or changed by hand. If its labels name an AutoscalingRunnerSet that has no runner set, that
// takes it back. Otherwise it is deleted: its idle runners are removed, and those with a job finish it.

// abandon deletes a runner set that nobody will take back. Nothing is decided while its AutoscalingRunnerSet might
// still come: a restore may bring it next.
func (c *Controller) abandon(ctx context.Context, w *world) error {
	kube.SetIfZero(&w.Memory.differsSince, w.Now)
	if due := w.Memory.differsSince.Add(differsGrace); w.Now.Before(due) {
		w.RequeueAt(due)
		return nil
	}
	w.RequeueAt(w.Now.Add(differsInterval))
	unchanged := kube.UnchangedPrecondition(w.Object) // somebody may be giving it an owner
	err := c.options.Client.Delete(ctx, w.Object.DeepCopy(), unchanged,
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case kube.IgnoreOvertaken(err) != nil:
		return fmt.Errorf("delete EphemeralRunnerSet without an owner: %w", err)
	case err != nil:
		return nil
	}
	report.RecordEvent(ctx, c.options.Recorder, w.Object, nil,
		report.Warning(v1alpha1.ReasonOwnerless, "ScaleRunners", fmt.Sprintf(
			"EphemeralRunnerSet %s is removed: %s, as after a restore from a backup; runners with a job finish it. "+
				"Only the manager creates runner sets: leave EphemeralRunnerSets out of backups and manifests",
			w.Object.Name,
			w.abandoned)))
	return nil
}
