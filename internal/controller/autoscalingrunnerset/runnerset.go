package autoscalingrunnerset

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// listenerFields are the fields of an EphemeralRunnerSet that the listener writes.
var listenerFields = [][]string{{"spec", "replicas"}, {"spec", "patchID"}, {"spec", "assignedJobs"}}

// registeredHere reports whether GitHub has answered us or ARC at the address in the spec. Until then runners and listener have no
// scale set, and after a change of the address the present ones continue until the new address has proven itself.
func (p *pass) registeredHere() bool {
	return p.registration != nil && p.hasValidURL() && sameURL(p.registration.URL, p.set.Spec.GitHubConfigUrl)
}

// hasValidURL reports whether the address is valid. With invalid credentials the objects are still kept as the spec wants them; with
// an invalid address they can't be.
func (p *pass) hasValidURL() bool { return p.desired.URL != "" }

// applyRunnerSet keeps one EphemeralRunnerSet as the spec wants it. ARC 0.14 created a new one for every change: the newest is adopted
// under its name, and the others are deleted, which lets busy runners finish.
func (c *Controller) applyRunnerSet(ctx context.Context, p *pass) error {
	if !p.registeredHere() {
		return nil
	}
	if err := c.drainOld(ctx, p); err != nil {
		return err
	}
	live := p.runnerSet()
	if live != nil && live.DeletionTimestamp != nil {
		return nil // the event that it is gone brings the pass that creates a new one
	}
	wanted := c.runnerSet(p)
	p.runnerSpecHash = kube.RunnerSpecHash(&wanted.Spec)
	if live == nil {
		if reclaimed, err := c.reclaimRunnerSet(ctx, p, wanted.Name); err != nil || reclaimed {
			return err // the event of the patch brings the next pass
		}
		_, err := kube.Apply(ctx, c.options.Client, wanted, nil, listenerFields...)
		return err
	}
	if p.set.Status.RunnerSpecHash == p.runnerSpecHash && p.set.Status.ObservedGeneration == p.set.Generation &&
		kube.RunnerSpecHash(&live.Spec) != p.runnerSpecHash {
		report.RecordEvent(ctx, c.options.Recorder, p.set, live, runnerSetRestored(live.Name))
	}
	applied, err := kube.Apply(ctx, c.options.Client, wanted, live, listenerFields...)
	if err != nil || applied {
		return err
	}
	pruned := live.DeepCopy()
	pruned.Spec = wanted.Spec
	pruned.Spec.Replicas, pruned.Spec.PatchID, pruned.Spec.AssignedJobs = live.Spec.Replicas, live.Spec.PatchID, live.Spec.AssignedJobs
	if err := c.prune(ctx, pruned, live); err != nil {
		return err
	}
	return kube.DropInherited(ctx, c.options.Client, pruned, wanted, kube.ForPruning)
}

// reclaimRunnerSet gives the set its EphemeralRunnerSet back from which somebody has taken the owner, which a listener may do as it may
// patch the object. Server-side apply can't: it adds an owner to the others, and the API server allows one controller only.
// Ours is what has the set's labels and either the name of a new one or, as ARC gave it another, the manager's finalizer and annotation.
func (c *Controller) reclaimRunnerSet(ctx context.Context, p *pass, name string) (reclaimed bool, err error) {
	var labelled v1alpha1.EphemeralRunnerSetList
	err = c.options.Client.List(ctx, &labelled, client.InNamespace(p.set.Namespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: p.set.Name, v1alpha1.LabelScaleSetNamespace: p.set.Namespace})
	if err != nil {
		return false, fmt.Errorf("list EphemeralRunnerSets: %w", err)
	}
	for i := range labelled.Items {
		lost := &labelled.Items[i]
		served := slices.ContainsFunc(lost.Finalizers, kube.IsOurFinalizer) && lost.Annotations[v1alpha1.AnnotationIntegrityHash] != ""
		if lost.DeletionTimestamp != nil || lost.Name != name && !served {
			continue
		}
		switch another, err := c.hasOwner(ctx, lost); {
		case err != nil:
			return false, err
		case another:
			continue
		}
		owned := lost.DeepCopy()
		owned.OwnerReferences = kube.OwnedBy(p.set)
		if reclaimed, err = kube.Patch(ctx, c.options.Client, owned, lost); err != nil {
			return false, fmt.Errorf("take back EphemeralRunnerSet %s: %w", lost.Name, err)
		}
		if reclaimed {
			report.RecordEvent(ctx, c.options.Recorder, p.set, lost, runnerSetRestored(lost.Name))
			return true, nil
		}
	}
	return false, nil
}

// hasOwner reports whether a runner set belongs to an AutoscalingRunnerSet that lives. Labels alone may be somebody else's, or edited.
func (c *Controller) hasOwner(ctx context.Context, runnerSet *v1alpha1.EphemeralRunnerSet) (bool, error) {
	return kube.ReadController(ctx, c.options.Client, runnerSet, "AutoscalingRunnerSet", &v1alpha1.AutoscalingRunnerSet{}, client.UnsafeDisableDeepCopy)
}

// drainOld deletes all but the first EphemeralRunnerSet.
func (c *Controller) drainOld(ctx context.Context, p *pass) error {
	for i := range p.runnerSets {
		old := &p.runnerSets[i]
		if i == 0 || old.DeletionTimestamp != nil {
			continue
		}
		if err := c.remove(ctx, old); err != nil {
			return err
		}
		report.RecordEvent(ctx, c.options.Recorder, p.set, old, runnerSetDraining(old.Name))
	}
	return nil
}

// remove deletes an object with background propagation: its finalizer keeps it until the objects that belong to it are gone.
func (c *Controller) remove(ctx context.Context, object client.Object) error {
	err := c.options.Client.Delete(ctx, object, kube.UIDPrecondition(object), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", c.nameOf(object), err)
	}
	return nil
}

// runnerSet returns the EphemeralRunnerSet as it should be.
func (c *Controller) runnerSet(p *pass) *v1alpha1.EphemeralRunnerSet {
	spec := &p.set.Spec
	name := p.set.Name
	if live := p.runnerSet(); live != nil {
		name = live.Name
	}
	return &v1alpha1.EphemeralRunnerSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       p.set.Namespace,
			Name:            name,
			Labels:          c.childLabels(p.set, p.set.Labels, spec.EphemeralRunnerSetMetadata, v1alpha1.ComponentRunnerSet),
			Annotations:     childAnnotations(p, spec.EphemeralRunnerSetMetadata),
			OwnerReferences: kube.OwnedBy(p.set),
		},
		Spec: v1alpha1.EphemeralRunnerSetSpec{
			MaxRunners:              roomForRunners(p.mostRunners(), p.runnerSets),
			FailedHistoryLimit:      spec.FailedHistoryLimit,
			EphemeralRunnerMetadata: spec.EphemeralRunnerMetadata,
			EphemeralRunnerSpec:     kube.RunnerSpec(p.set, p.registration.ID),
		},
	}
}

// mostRunners returns maxRunners, cut to the manager's limit for each set; nil if there is neither.
func (p *pass) mostRunners() *int {
	most := p.set.Spec.MaxRunners
	if p.ceiling > 0 && (most == nil || *most > p.ceiling) {
		most = &p.ceiling
	}
	return most
}

// takesJobs reports whether the set may have any runners. If not, its listener has no session.
func (p *pass) takesJobs() bool {
	most := p.mostRunners()
	return most == nil || *most > 0
}

// cutRunners says what the manager's limit for each set takes away from what the spec asks for, "" if nothing.
func (p *pass) cutRunners() string {
	for _, field := range []struct {
		name  string
		value *int
	}{{"maxRunners", p.set.Spec.MaxRunners}, {"minRunners", p.set.Spec.MinRunners}} {
		if field.value != nil && p.ceiling > 0 && *field.value > p.ceiling {
			return fmt.Sprintf("%s of %d is cut to %d, %s", field.name, *field.value, p.ceiling, whoseCeiling)
		}
	}
	return ""
}

// whoseCeiling says who decides the limit for each set.
const whoseCeiling = "the controller's limit for each scale set (flags.maxRunnersPerSet of its chart, which the cluster's administrator decides)"

// roomForRunners returns maxRunners minus the runners of older EphemeralRunnerSets, nil if there is no limit. Anybody with rights in the
// namespace may write those sets' status, so a negative number doesn't make room.
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
	room = max(room, 0)
	return &room
}

// prune removes fields that ARC has set and the spec no longer wants; pruned is live without them. Server-side apply leaves them,
// because ARC still counts as their owner. Only this controller and the listener write these specs, so a field that neither wants
// can be removed.
func (c *Controller) prune(ctx context.Context, pruned, live client.Object) error {
	if equality.Semantic.DeepEqual(pruned, live) {
		return nil
	}
	if _, err := kube.Patch(ctx, c.options.Client, pruned, live); err != nil {
		return fmt.Errorf("prune %s %s: %w", c.kindOf(live), live.GetName(), err)
	}
	return nil
}
