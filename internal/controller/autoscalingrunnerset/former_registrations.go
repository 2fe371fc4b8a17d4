package autoscalingrunnerset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationFormer lists, as JSON, registrations at former addresses of the set. They are deleted once none of their runners
// is left, since a busy runner needs its registration. Until then they are recorded only here.
const annotationFormer = "actions.github.com/former-registrations"

// formerCheckPeriod is how often to check whether the last runner of a former registration is gone.
const formerCheckPeriod = 30 * time.Second

// formerRegistration also names the credentials it was registered with: those for the new address may not be valid at the
// old one.
type formerRegistration struct {
	v1alpha1.ScaleSetRegistration
	// Secret is the former spec.githubConfigSecret, empty where it is not known.
	Secret string `json:"githubConfigSecret,omitempty"`
	// UID is that of the set, empty where an earlier version wrote the annotation. A copy of the set has another UID, and must
	// not delete what the annotation lists.
	UID types.UID `json:"uid,omitempty"`
}

// formerOf returns none where the annotation can't be parsed: a guess could delete what belongs to somebody else.
func formerOf(set *v1alpha1.AutoscalingRunnerSet) []formerRegistration {
	var former []formerRegistration
	if json.Unmarshal([]byte(set.Annotations[annotationFormer]), &former) != nil {
		return nil // absent, or edited by hand and no JSON
	}
	return slices.DeleteFunc(former, func(f formerRegistration) bool { return f.UID != "" && f.UID != set.UID })
}

// addFormer adds a registration unless it is listed already, because a pass that fails after this is repeated.
func addFormer(set *v1alpha1.AutoscalingRunnerSet, registration formerRegistration) {
	former := formerOf(set)
	if !slices.ContainsFunc(former, func(f formerRegistration) bool { return f.ScaleSetRegistration == registration.ScaleSetRegistration }) {
		registration.UID = set.UID
		setFormer(set, append(former, registration))
	}
}

// dropFormer removes the scale set from the list: the set has returned to its address.
func dropFormer(set *v1alpha1.AutoscalingRunnerSet, present v1alpha1.ScaleSetRegistration) {
	former := formerOf(set)
	if rest := slices.DeleteFunc(slices.Clone(former), func(f formerRegistration) bool {
		return sameScaleSet(f.ScaleSetRegistration, present)
	}); len(rest) < len(former) {
		setFormer(set, rest)
	}
}

// sameScaleSet ignores name and group, which can be changed on GitHub.
func sameScaleSet(a, b v1alpha1.ScaleSetRegistration) bool {
	return a.ID == b.ID && sameURL(a.URL, b.URL)
}

// formerSecret returns the name of the Secret that a former registration was created with, empty where it is not known.
func formerSecret(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration) string {
	for _, former := range formerOf(set) {
		if former.ScaleSetRegistration == registration {
			return former.Secret
		}
	}
	return ""
}

// secretAt returns the name of the Secret that the listener or the runners use for an address, and whether one of them does.
// Their specs have the former address until the set is registered at the new one.
func (p *pass) secretAt(address string) (string, bool) {
	if listener := p.listener(); listener != nil && sameURL(listener.Spec.GitHubConfigUrl, address) {
		return listener.Spec.GitHubConfigSecret, true
	}
	if runnerSet := p.runnerSet(); runnerSet != nil && sameURL(runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigUrl, address) {
		return runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigSecret, true
	}
	return "", false
}

// wasAt reports whether more than the status, which can be edited by hand, shows that the set was registered at an address.
// Credentials are sent nowhere else.
func (c *Controller) wasAt(p *pass, address string) bool {
	if _, there := p.secretAt(address); there || sameURL(address, p.set.Spec.GitHubConfigUrl) {
		return true
	}
	last, known := c.syncs.Last(p.key)
	return known && last.Result.set != nil && sameURL(last.Result.desired.URL, address)
}

// leave lists the registration at another address as a former one, unless only the status has it.
func (c *Controller) leave(ctx context.Context, p *pass, previous v1alpha1.ScaleSetRegistration) {
	if !c.wasAt(p, previous.URL) {
		c.recordUnproven(ctx, p, previous)
		return
	}
	secret, _ := p.secretAt(previous.URL)
	addFormer(p.set, formerRegistration{ScaleSetRegistration: previous, Secret: secret})
}

// recordUnproven records an Event about a registration that only the status has, unless it is listed as a former one: then it
// was proven when it was listed.
func (c *Controller) recordUnproven(ctx context.Context, p *pass, registration v1alpha1.ScaleSetRegistration) {
	if !slices.ContainsFunc(registrationsOf(formerOf(p.set)), func(r v1alpha1.ScaleSetRegistration) bool { return sameScaleSet(r, registration) }) {
		c.recordLeftBehind(ctx, p, unproven(registration))
	}
}

// setFormer writes the annotation, or removes it where the list is empty.
func setFormer(set *v1alpha1.AutoscalingRunnerSet, former []formerRegistration) {
	if len(former) == 0 {
		delete(set.Annotations, annotationFormer)
		return
	}
	text, _ := json.Marshal(former) // strings and numbers can't fail to encode
	kube.SetAnnotation(set, annotationFormer, string(text))
}

// deregisterFormer deletes the scale sets at former addresses whose runners are gone, unless another set holds them.
func (c *Controller) deregisterFormer(ctx context.Context, p *pass) error {
	former := formerOf(p.set)
	if len(former) == 0 {
		c.abandonDeregistration(p)
		return nil
	}
	p.requeue.After(formerCheckPeriod)
	var runners v1alpha1.EphemeralRunnerList
	err := c.options.Client.List(ctx, &runners, client.InNamespace(p.set.Namespace), client.MatchingLabels{v1alpha1.LabelScaleSetName: p.set.Name})
	if err != nil {
		return fmt.Errorf("list EphemeralRunners: %w", err)
	}
	unused := slices.DeleteFunc(registrationsOf(former), func(r v1alpha1.ScaleSetRegistration) bool {
		return p.present(r) || p.listensTo(r) || slices.ContainsFunc(runners.Items, func(runner v1alpha1.EphemeralRunner) bool {
			return runner.Spec.RunnerScaleSetID == r.ID && sameURL(runner.Spec.GitHubConfigUrl, r.URL)
		})
	})
	unused, err = c.heldByNobodyElse(ctx, p, unused)
	if err != nil {
		return err
	}
	if len(unused) == 0 {
		c.abandonDeregistration(p)
		return nil
	}
	state := c.deregisterAll(p, unused)
	if state.requeueAfter > 0 {
		p.requeue.After(state.requeueAfter)
	}
	if !state.over {
		return nil
	}
	return c.forgetFormer(ctx, p, state, slices.DeleteFunc(former, func(f formerRegistration) bool {
		return slices.Contains(unused, f.ScaleSetRegistration)
	}))
}

// registrationsOf returns the registrations without their credentials.
func registrationsOf(former []formerRegistration) []v1alpha1.ScaleSetRegistration {
	registrations := make([]v1alpha1.ScaleSetRegistration, 0, len(former))
	for _, f := range former {
		registrations = append(registrations, f.ScaleSetRegistration)
	}
	return registrations
}

// present reports whether a registration is in use again, or may be: the set is on its way back to the address, and it is
// not known yet which scale set it will find there.
func (p *pass) present(r v1alpha1.ScaleSetRegistration) bool {
	if p.registration != nil && sameScaleSet(r, *p.registration) {
		return true
	}
	return sameURL(r.URL, p.desired.URL) && (p.registration == nil || !sameURL(p.registration.URL, p.desired.URL))
}

// listensTo reports whether the listener's or the runners' spec still has the registration.
func (p *pass) listensTo(registration v1alpha1.ScaleSetRegistration) bool {
	listener, runnerSet := p.listener(), p.runnerSet()
	return listener != nil && listener.Spec.RunnerScaleSetID == registration.ID && sameURL(listener.Spec.GitHubConfigUrl, registration.URL) ||
		runnerSet != nil && runnerSet.Spec.EphemeralRunnerSpec.RunnerScaleSetID == registration.ID &&
			sameURL(runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigUrl, registration.URL)
}

// forgetFormer removes what is done from the list and records Events about the outcome.
func (c *Controller) forgetFormer(ctx context.Context, p *pass, state deregistrationState, rest []formerRegistration) error {
	before := p.set.DeepCopy()
	setFormer(p.set, rest)
	if _, err := kube.Patch(ctx, c.options.Client, p.set, before); err != nil {
		return fmt.Errorf("forget former registrations: %w", err)
	}
	c.recordDeregistration(ctx, p, state)
	return nil
}
