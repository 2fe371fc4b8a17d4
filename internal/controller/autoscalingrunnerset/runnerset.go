package autoscalingrunnerset

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// listenerFields are the fields of an EphemeralRunnerSet that its listener writes.
var listenerFields = [][]string{{"spec", "replicas"}, {"spec", "patchID"}, {"spec", "assignedJobs"}}

// registeredHere says that the scale set is where the spec wants it: before that there is nothing runners or listeners
// could be told, and after a change of the address those that are there go on until the new place is known.
func (p *pass) registeredHere() bool {
	return p.registration != nil && p.obstacleIsNotAddress() && sameURL(p.registration.URL, p.set.Spec.GitHubConfigUrl)
}

// obstacleIsNotAddress: with bad credentials what is there stays as the spec wants it; with a bad address nothing can.
func (p *pass) obstacleIsNotAddress() bool { return p.wish.URL != "" }

// applyRunnerSet keeps one EphemeralRunnerSet as the spec wants it. ARC 0.14 made a new one for every change: the newest
// is taken over under the name it has, the others are deleted, which lets busy runners finish.
func (c *Controller) applyRunnerSet(ctx context.Context, p *pass) error {
	if !p.registeredHere() {
		return nil
	}
	if err := c.drainOld(ctx, p); err != nil {
		return err
	}
	live := p.runnerSet()
	if live != nil && live.DeletionTimestamp != nil {
		return nil // its end is an event, and the next pass makes a new one
	}
	wanted := c.runnerSet(p)
	if err := controllerutil.SetControllerReference(p.set, wanted, c.options.Client.Scheme()); err != nil {
		return fmt.Errorf("own EphemeralRunnerSet %s: %w", wanted.Name, err)
	}
	if live == nil {
		_, err := kube.Apply(ctx, c.options.Client, wanted, nil, listenerFields...)
		return err
	}
	applied, err := kube.Apply(ctx, c.options.Client, wanted, live, listenerFields...)
	if err != nil || applied {
		return err
	}
	return pruneRunnerSet(ctx, c.options.Client, wanted, live)
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
		kube.RecordEvent(ctx, c.options.Recorder, p.set, old, runnerSetDraining(old.Name))
	}
	return nil
}

// remove deletes an object in the background: its own finalizer sees to what belongs to it.
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
			Namespace:   p.set.Namespace,
			Name:        name,
			Labels:      c.childLabels(p.set, spec.EphemeralRunnerSetMetadata, v1alpha1.ComponentRunnerSet),
			Annotations: childAnnotations(p, spec.EphemeralRunnerSetMetadata),
		},
		Spec: v1alpha1.EphemeralRunnerSetSpec{
			MaxRunners:              roomForRunners(spec.MaxRunners, p.runnerSets),
			FailedHistoryLimit:      spec.FailedHistoryLimit,
			EphemeralRunnerMetadata: spec.EphemeralRunnerMetadata,
			EphemeralRunnerSpec: v1alpha1.EphemeralRunnerSpec{
				GitHubConfigUrl:                     spec.GitHubConfigUrl,
				GitHubConfigSecret:                  spec.GitHubConfigSecret,
				GitHubServerTLS:                     spec.GitHubServerTLS,
				RunnerScaleSetID:                    p.registration.ID,
				Proxy:                               spec.Proxy,
				VaultConfig:                         spec.VaultConfig,
				EphemeralRunnerConfigSecretMetadata: spec.EphemeralRunnerConfigSecretMetadata,
				RunnerTimeouts:                      spec.RunnerTimeouts,
				PodMetadata:                         spec.Template.ObjectMeta,
				PodSpec:                             spec.Template.Spec,
			},
		},
	}
}

// roomForRunners is maxRunners less what older EphemeralRunnerSets still occupy, nil where there is no limit.
func roomForRunners(maxRunners *int, runnerSets []v1alpha1.EphemeralRunnerSet) *int {
	if maxRunners == nil {
		return nil
	}
	room := *maxRunners
	for i, old := range runnerSets {
		if i > 0 {
			room -= old.Status.CurrentReplicas
		}
	}
	room = max(room, 0)
	return &room
}

// pruneRunnerSet removes fields that ARC has set and the spec no longer wants. Server-side apply leaves them, because
// ARC counts as their owner still; the spec has no other writer than us and the listener, so what is not wanted can go.
func pruneRunnerSet(ctx context.Context, c client.Client, wanted, live *v1alpha1.EphemeralRunnerSet) error {
	pruned := live.DeepCopy()
	pruned.Spec = wanted.Spec
	pruned.Spec.Replicas, pruned.Spec.PatchID, pruned.Spec.AssignedJobs = live.Spec.Replicas, live.Spec.PatchID, live.Spec.AssignedJobs
	if equality.Semantic.DeepEqual(pruned.Spec, live.Spec) {
		return nil
	}
	if _, err := kube.Patch(ctx, c, pruned, live); err != nil {
		return fmt.Errorf("prune EphemeralRunnerSet %s: %w", live.Name, err)
	}
	return nil
}
