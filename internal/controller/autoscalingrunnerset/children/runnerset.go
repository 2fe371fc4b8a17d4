package children

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// Wanted is what the objects of a set are made from.
type Wanted struct {
	Set *v1alpha1.AutoscalingRunnerSet
	// Registration is the scale set on GitHub, at the address in the spec.
	Registration v1alpha1.ScaleSetRegistration
	// Accepted is the part of the spec's wishes for the listener that the policy lets through.
	Accepted listenertemplate.Accepted
	// Numbers are those in force.
	Numbers effective.Numbers
	// Found are the objects that there are.
	Found *Found
}

// listenerFields are the fields of an EphemeralRunnerSet that the listener writes.
var listenerFields = [][]string{
	{"spec", "replicas"}, {"spec", "patchID"}, {"spec", "assignedJobs"}, {"spec", "canceledJobs"},
}

// ApplyRunnerSet keeps one EphemeralRunnerSet as the spec wants it. ARC 0.14 created a new one for every change: the
// newest is adopted under its name, and the others are deleted, which lets busy runners finish. It returns the hash of
// the runner spec that the one set has to have, even if a later step fails, and "" if it did not get that far.
func (k *Keeper) ApplyRunnerSet(ctx context.Context, w Wanted) (specHash string, err error) {
	for i := range w.Found.RunnerSets {
		old := &w.Found.RunnerSets[i]
		if i == 0 || old.DeletionTimestamp != nil {
			continue
		}
		if err := k.remove(ctx, old); err != nil {
			return "", err
		}
		report.RecordEvent(ctx, k.options.Recorder, w.Set, old, report.Normal("OldRunnerSetDraining", "Reconcile",
			fmt.Sprintf("EphemeralRunnerSet %s is from an earlier version: its idle runners are removed, its "+
				"busy ones finish their jobs", old.Name)))
	}
	live := w.Found.RunnerSet()
	if live != nil && live.DeletionTimestamp != nil {
		return "", nil // the event that it is gone brings the pass that creates a new one
	}
	wanted := k.RunnerSet(w)
	specHash = kube.RunnerSpecHash(&wanted.Spec)
	if live == nil {
		if reclaimed, err := k.reclaimRunnerSet(ctx, w.Set, wanted.Name); err != nil || reclaimed {
			return specHash, err // the event of the patch brings the next pass
		}
		_, err := kube.Apply(ctx, k.options.Client, wanted, nil, listenerFields...)
		return specHash, err
	}
	if w.Set.Status.RunnerSpecHash == specHash && w.Set.Status.ObservedGeneration == w.Set.Generation &&
		kube.RunnerSpecHash(&live.Spec) != specHash {
		report.RecordEvent(ctx, k.options.Recorder, w.Set, live, runnerSetRestored(live.Name))
	}
	applied, err := kube.Apply(ctx, k.options.Client, wanted, live, listenerFields...)
	if err != nil || applied {
		return specHash, err
	}
	pruned := live.DeepCopy()
	pruned.Spec = wanted.Spec
	pruned.Spec.Replicas, pruned.Spec.PatchID = live.Spec.Replicas, live.Spec.PatchID
	pruned.Spec.AssignedJobs, pruned.Spec.CanceledJobs = live.Spec.AssignedJobs, live.Spec.CanceledJobs
	return specHash, k.prune(ctx, pruned, live, wanted, kube.ForPruning)
}

// RunnerSet returns the EphemeralRunnerSet as it should be.
func (k *Keeper) RunnerSet(w Wanted) *v1alpha1.EphemeralRunnerSet {
	spec := &w.Set.Spec
	name := w.Set.Name
	if live := w.Found.RunnerSet(); live != nil {
		name = live.Name
	}
	return &v1alpha1.EphemeralRunnerSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Set.Namespace,
			Name:      name,
			Labels: k.labels(w.Set, w.Set.Labels, spec.EphemeralRunnerSetMetadata,
				v1alpha1.ComponentRunnerSet),
			Annotations:     w.annotations(spec.EphemeralRunnerSetMetadata),
			OwnerReferences: kube.OwnedBy(w.Set),
		},
		Spec: v1alpha1.EphemeralRunnerSetSpec{
			MaxRunners:              roomForRunners(w.Numbers.Limit(), w.Found.RunnerSets),
			FailedHistoryLimit:      spec.FailedHistoryLimit,
			EphemeralRunnerMetadata: spec.EphemeralRunnerMetadata,
			EphemeralRunnerSpec:     kube.RunnerSpec(w.Set, w.Registration.ID),
		},
	}
}

// roomForRunners returns maxRunners minus the runners of older EphemeralRunnerSets, nil if there is no limit. Anybody
// with rights in the namespace may write those sets' status, so a negative number doesn't make room.
func roomForRunners(maxRunners *int, runnerSets []v1alpha1.EphemeralRunnerSet) *int {
	if maxRunners == nil {
		return nil
	}
	room := *maxRunners
	for i, old := range runnerSets {
		if i > 0 {
			room -= max(old.Status.CurrentReplicas, 0)
		}
	}
	return new(max(room, 0))
}

// labels returns the labels of an object created for the set: the labels in the spec's metadata, overridden by those
// inherited from the set, overridden by the manager's. No label is inherited for which an installer deletes objects
// that others own.
func (k *Keeper) labels(
	set *v1alpha1.AutoscalingRunnerSet, inherited map[string]string, meta *v1alpha1.ResourceMeta, component string,
) map[string]string {
	labels, _ := kube.Metadata(meta)
	inherited = journal.WithoutScope(inherited)
	maps.DeleteFunc(inherited, func(key, _ string) bool { return kube.ForPruning(key) })
	return kube.Labels(k.options.ExcludedLabelPrefixes, labels, inherited, kube.ScopeLabels(set.Spec.GitHubConfigUrl),
		kube.ScaleSetLabels(set, component))
}

// annotations returns the annotations in the spec's metadata, and the names on GitHub.
func (w Wanted) annotations(meta *v1alpha1.ResourceMeta) map[string]string {
	_, annotations := kube.Metadata(meta)
	return kube.Annotations(annotations, map[string]string{
		v1alpha1.AnnotationRunnerGroupName:    w.Registration.Group,
		v1alpha1.AnnotationRunnerScaleSetName: w.Registration.Name,
	})
}

// prune removes fields that ARC has set and the spec no longer wants; pruned is live without them. Server-side apply
// leaves them, because ARC still counts as their owner. Only this manager and the listener write these specs, so a
// field that neither wants can be removed. Then prune removes the labels and annotations that live has inherited and
// that unwanted selects.
func (k *Keeper) prune(ctx context.Context, pruned, live, wanted client.Object, unwanted func(key string) bool) error {
	if !equality.Semantic.DeepEqual(pruned, live) {
		if _, err := kube.Patch(ctx, k.options.Client, pruned, live); err != nil {
			return fmt.Errorf("prune %s %s: %w", report.KindOf(k.options.Client, live), live.GetName(), err)
		}
	}
	return kube.DropInherited(ctx, k.options.Client, pruned, wanted, unwanted)
}

// reclaimRunnerSet gives the set its EphemeralRunnerSet back if somebody has taken the owner from it, as a listener may
// do: it may patch the object. Server-side apply can't: it adds an owner to the others, and the API server allows one
// controller only. An EphemeralRunnerSet is ours if it has the set's labels and either the name that we give a new one
// or, because ARC gave another name, the manager's finalizer and annotation.
func (k *Keeper) reclaimRunnerSet(
	ctx context.Context, set *v1alpha1.AutoscalingRunnerSet, name string,
) (reclaimed bool, err error) {
	var labelled v1alpha1.EphemeralRunnerSetList
	err = k.options.Client.List(ctx, &labelled, client.InNamespace(set.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: set.Name, v1alpha1.LabelScaleSetNamespace: set.Namespace})
	if err != nil {
		return false, fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	for i := range labelled.Items {
		lost := &labelled.Items[i]
		served := slices.ContainsFunc(lost.Finalizers, kube.IsOurFinalizer) &&
			lost.Annotations[v1alpha1.AnnotationIntegrityHash] != ""
		if lost.DeletionTimestamp != nil || (lost.Name != name && !served) {
			continue
		}
		// Labels alone may be somebody else's, or edited: what belongs to an AutoscalingRunnerSet that lives is left to
		// it.
		switch another, err := kube.ReadController(
			ctx, k.options.Client, lost, "AutoscalingRunnerSet", &v1alpha1.AutoscalingRunnerSet{},
			client.UnsafeDisableDeepCopy); {
		case err != nil:
			return false, err
		case another:
			continue
		}
		owned := lost.DeepCopy()
		owned.OwnerReferences = kube.OwnedBy(set)
		if reclaimed, err = kube.Patch(ctx, k.options.Client, owned, lost); err != nil {
			return false, fmt.Errorf("take back EphemeralRunnerSet %s: %w", lost.Name, err)
		}
		if reclaimed {
			report.RecordEvent(ctx, k.options.Recorder, set, lost, runnerSetRestored(lost.Name))
			return true, nil
		}
	}
	return false, nil
}

// runnerSetRestored is recorded when the EphemeralRunnerSet said something else of its runners than the set does. Only
// the manager writes that, so somebody else has: the listener can, if its pod was taken over.
func runnerSetRestored(name string) report.Event {
	return report.Warning("RunnerSetRestored", "ScaleRunners",
		fmt.Sprintf("EphemeralRunnerSet %s was changed by somebody other than the manager, which has restored it. "+
			"No runner was created from the change. Change the AutoscalingRunnerSet instead; if nobody here did "+
			"this, replace the listener's credentials", name))
}
