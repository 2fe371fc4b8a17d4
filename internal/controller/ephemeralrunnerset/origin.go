package ephemeralrunnerset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// A listener writes the demand into its EphemeralRunnerSet, and Kubernetes has no right that covers some fields only.
// So what the object says of its runners counts only as far as the AutoscalingRunnerSet says the same.

const (
	// A runner set may differ from its AutoscalingRunnerSet for differsGrace; then its conditions say so. After a
	// change of the AutoscalingRunnerSet it does for milliseconds.
	differsGrace = 10 * time.Second
	// A runner set that differs is looked at again every differsInterval without an event.
	differsInterval = 10 * time.Second
)

// isAsGiven reports whether a runner set is as its AutoscalingRunnerSet gives it, in everything that decides who runs
// which jobs; the number of runners is cut, see scaling.Demand. Its runner spec must be the one that the
// AutoscalingRunnerSet's spec gives. While the spec asks for an address that has not proven itself yet, the runner spec
// must be the one that was given last. If an older version gave that and recorded no RunnerSpecHash, the runner spec
// may differ in its address only, which must be the one at which the set is registered.
func isAsGiven(set *v1alpha1.EphemeralRunnerSet, origin *v1alpha1.AutoscalingRunnerSet) bool {
	registration := kube.Registration(origin)
	id := 0
	if registration != nil {
		id = registration.ID
	}
	wanted := kube.RunnerSpec(origin, id)
	isGiven := func() bool {
		return equality.Semantic.DeepEqual(set.Spec.EphemeralRunnerSpec, wanted) &&
			equality.Semantic.DeepEqual(set.Spec.EphemeralRunnerMetadata, origin.Spec.EphemeralRunnerMetadata)
	}
	switch last := origin.Status.RunnerSpecHash; {
	case isGiven():
		return true
	case last != "":
		return last == kube.RunnerSpecHash(&set.Spec)
	case registration == nil:
		return false
	case roster.ConfigURLOf(&set.Spec.EphemeralRunnerSpec) !=
		roster.ConfigURLOf(&v1alpha1.EphemeralRunnerSpec{GitHubConfigUrl: registration.URL}):
		return false
	}
	wanted.GitHubConfigUrl = set.Spec.EphemeralRunnerSpec.GitHubConfigUrl
	return isGiven()
}

// inheritedLabels returns the labels for new runners: those of the runner set that its AutoscalingRunnerSet gave it.
// Runners pass them on to their pods, where a label can select a network policy or a cloud identity.
func inheritedLabels(set *v1alpha1.EphemeralRunnerSet, origin *v1alpha1.AutoscalingRunnerSet) map[string]string {
	fromMetadata, _ := kube.Metadata(origin.Spec.EphemeralRunnerSetMetadata)
	wanted := kube.Labels(nil, fromMetadata, origin.Labels,
		kube.ScopeLabels(set.Spec.EphemeralRunnerSpec.GitHubConfigUrl))
	maps.DeleteFunc(wanted, func(key, value string) bool { return set.Labels[key] != value })
	return kube.Labels(nil, wanted, kube.ScaleSetLabels(origin, v1alpha1.ComponentRunner))
}

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

// givesOtherwise selects the changes of an AutoscalingRunnerSet that change what it gives its runner set.
var givesOtherwise = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isSet := e.ObjectOld.(*v1alpha1.AutoscalingRunnerSet)
		after, areSets := e.ObjectNew.(*v1alpha1.AutoscalingRunnerSet)
		return isSet && areSets && (before.Generation != after.Generation ||
			before.Status.RunnerSpecHash != after.Status.RunnerSpecHash ||
			before.Drained() != after.Drained() ||
			!equality.Semantic.DeepEqual(kube.Registration(before), kube.Registration(after)))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
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

// whyAbandoned says why no AutoscalingRunnerSet will take the runner set back, "" if one may.
func (c *Controller) whyAbandoned(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (string, error) {
	name := kube.ScaleSetOf(set).Name
	origin := &v1alpha1.AutoscalingRunnerSet{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, origin,
		client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return c.confirmGone(ctx, set, name)
	case err != nil:
		return "", fmt.Errorf("get AutoscalingRunnerSet %s: %w", name, err)
	case origin.DeletionTimestamp != nil:
		return fmt.Sprintf("no AutoscalingRunnerSet owns it, and AutoscalingRunnerSet %s is being deleted", name), nil
	}
	var sets v1alpha1.EphemeralRunnerSetList
	if err := c.options.Client.List(ctx, &sets, client.InNamespace(set.Namespace),
		client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	own := slices.IndexFunc(sets.Items,
		func(other v1alpha1.EphemeralRunnerSet) bool { return metav1.IsControlledBy(&other, origin) })
	if own < 0 {
		return "", nil
	}
	return fmt.Sprintf("no AutoscalingRunnerSet owns it, and AutoscalingRunnerSet %s has another, %s", name,
		sets.Items[own].Name), nil
}

// confirmGone asks the API server, because the cache may be late, whether the AutoscalingRunnerSet that would take the
// set back is gone, and the one that its owner reference names. It lists, because the manager may not get one.
func (c *Controller) confirmGone(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, name string) (string, error) {
	origins, err := kube.ListMetadata(ctx, c.options.Reader, "AutoscalingRunnerSet", client.InNamespace(set.Namespace))
	if err != nil {
		return "", err
	}
	for i := range origins {
		if origins[i].Name == name || metav1.IsControlledBy(set, &origins[i]) {
			return "", nil
		}
	}
	return fmt.Sprintf("no AutoscalingRunnerSet owns it, and there is no AutoscalingRunnerSet %s in namespace %s", name,
		set.Namespace), nil
}

// Admit reports whether a runner set of origin has room for one of its runners, which then counts. A set creates no
// more than it may, but others may create runners with the set as their owner.
func (c *Controller) Admit(
	origin *v1alpha1.AutoscalingRunnerSet, set *v1alpha1.EphemeralRunnerSet, runner types.NamespacedName,
) bool {
	numbers := &effective.Plan{}
	if m := c.Known(client.ObjectKeyFromObject(set)); m != nil {
		numbers = &m.numbers
	}
	most := numbers.At(origin, c.options.MaxRunnersPerSet, c.options.Clock.Now()).Max
	if limit := set.Spec.MaxRunners; limit != nil {
		most = min(most, *limit)
	}
	return c.roster.Admit(set.UID, runner, most)
}
