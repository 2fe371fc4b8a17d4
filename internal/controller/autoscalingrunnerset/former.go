package autoscalingrunnerset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationFormer lists, as JSON, registrations under addresses the set had before. They are deleted once none of their
// runners is left, since a busy one needs its registration; until then the annotation is all that remembers them.
const annotationFormer = "actions.github.com/former-registrations"

// formerCheck is how often it is looked whether the last runner of a former registration is gone.
const formerCheck = 30 * time.Second

// formerOf returns none where the annotation can't be read: a guess could delete what belongs to somebody else.
func formerOf(set *v1alpha1.AutoscalingRunnerSet) []v1alpha1.ScaleSetRegistration {
	var former []v1alpha1.ScaleSetRegistration
	if json.Unmarshal([]byte(set.Annotations[annotationFormer]), &former) != nil {
		return nil // absent, or edited by hand beyond recognition
	}
	return former
}

// addFormer adds a registration once: a pass that fails after this is repeated.
func addFormer(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration) {
	if former := formerOf(set); !slices.Contains(former, registration) {
		setFormer(set, append(former, registration))
	}
}

// setFormer leaves no empty annotation behind.
func setFormer(set *v1alpha1.AutoscalingRunnerSet, former []v1alpha1.ScaleSetRegistration) {
	if len(former) == 0 {
		delete(set.Annotations, annotationFormer)
		return
	}
	text, _ := json.Marshal(former) // strings and numbers can't fail to encode
	kube.SetAnnotation(set, annotationFormer, string(text))
}

// leaveFormer deletes the scale sets of former addresses whose runners are gone.
func (c *Controller) leaveFormer(ctx context.Context, p *pass) error {
	former := formerOf(p.set)
	if len(former) == 0 {
		return nil
	}
	p.again.After(formerCheck)
	var runners v1alpha1.EphemeralRunnerList
	err := c.options.Client.List(ctx, &runners, client.InNamespace(p.set.Namespace), client.MatchingLabels{v1alpha1.LabelScaleSetName: p.set.Name})
	if err != nil {
		return fmt.Errorf("list EphemeralRunners: %w", err)
	}
	unused := slices.DeleteFunc(slices.Clone(former), func(r v1alpha1.ScaleSetRegistration) bool {
		return p.listensTo(r) || slices.ContainsFunc(runners.Items, func(runner v1alpha1.EphemeralRunner) bool {
			return runner.Spec.RunnerScaleSetID == r.ID && sameURL(runner.Spec.GitHubConfigUrl, r.URL)
		})
	})
	if len(unused) == 0 {
		return nil
	}
	state := c.deregisterAll(p, unused)
	if state.again > 0 {
		p.again.After(state.again)
	}
	if !state.over {
		return nil
	}
	return c.forgetFormer(ctx, p, state, slices.DeleteFunc(former, func(r v1alpha1.ScaleSetRegistration) bool { return slices.Contains(unused, r) }))
}

// listensTo says that the listener has not been told of the new address yet.
func (p *pass) listensTo(registration v1alpha1.ScaleSetRegistration) bool {
	listener, runnerSet := p.listener(), p.runnerSet()
	return listener != nil && listener.Spec.RunnerScaleSetID == registration.ID && sameURL(listener.Spec.GitHubConfigUrl, registration.URL) ||
		runnerSet != nil && runnerSet.Spec.EphemeralRunnerSpec.RunnerScaleSetID == registration.ID &&
			sameURL(runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigUrl, registration.URL)
}

// forgetFormer drops what is dealt with and says how it ended.
func (c *Controller) forgetFormer(ctx context.Context, p *pass, state deregistrationState, rest []v1alpha1.ScaleSetRegistration) error {
	before := p.set.DeepCopy()
	setFormer(p.set, rest)
	if _, err := kube.Patch(ctx, c.options.Client, p.set, before); err != nil {
		return fmt.Errorf("forget former registrations: %w", err)
	}
	c.tellDeregistration(ctx, p, state)
	return nil
}

// tellDeregistration says what was deleted and what was left. The Event about what was left goes to the listener too: in
// a namespace that is itself being deleted no Event can be created.
func (c *Controller) tellDeregistration(ctx context.Context, p *pass, state deregistrationState) {
	for _, registration := range state.deleted {
		kube.Tell(ctx, c.options.Recorder, p.set, nil, deregistered(registration))
	}
	if len(state.left) == 0 {
		return
	}
	event := leftBehind(state.left, state.cause)
	kube.Tell(ctx, c.options.Recorder, p.set, nil, event)
	if listener := p.listener(); listener != nil {
		kube.Tell(ctx, c.options.Recorder, listener, p.set, event)
	}
}
