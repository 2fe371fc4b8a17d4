package autoscalingrunnerset

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
)

// annotationFormer lists, as JSON, registrations at former addresses of the set. They are deleted once their last runner is gone,
// because a busy runner needs its scale set. Until then they are recorded only here.
const annotationFormer = "actions.github.com/former-registrations"

// formerCheckPeriod is how often to check whether the last runner of a former registration is gone.
const formerCheckPeriod = 30 * time.Second

// formerRegistration is a registration at a former address, and how it was reached: the Secret, proxy, certificate authorities or
// vault for the new address may not work for the old one.
type formerRegistration struct {
	v1alpha1.ScaleSetRegistration
	// Credentials has names, not values. It is nil if an earlier version wrote the annotation.
	Credentials *credentials.Reference `json:"credentials,omitempty"`
	// Secret is what an earlier version wrote instead: the former spec.githubConfigSecret, empty if it was not known.
	Secret string `json:"githubConfigSecret,omitempty"`
	// UID is the set's, empty if an earlier version wrote the annotation. A copy of the set has another UID, and must not delete
	// what the annotation lists.
	UID types.UID `json:"uid,omitempty"`
}

// formerOf returns the former registrations, none if the annotation can't be parsed: a guess could delete somebody else's scale set.
func formerOf(set *v1alpha1.AutoscalingRunnerSet) []formerRegistration {
	var former []formerRegistration
	if json.Unmarshal([]byte(set.Annotations[annotationFormer]), &former) != nil {
		return nil // absent, or edited by hand and not JSON
	}
	return slices.DeleteFunc(former, func(f formerRegistration) bool { return f.UID != "" && f.UID != set.UID })
}

// addFormer adds a registration unless it is already listed, because a pass that fails later is repeated.
func addFormer(set *v1alpha1.AutoscalingRunnerSet, registration formerRegistration) {
	former := formerOf(set)
	if !slices.ContainsFunc(former, func(f formerRegistration) bool { return f.ScaleSetRegistration == registration.ScaleSetRegistration }) {
		registration.UID = set.UID
		setFormer(set, append(former, registration))
	}
}

// dropFormer removes a scale set from the list, because the set has returned to its address.
func (p *pass) dropFormer(present v1alpha1.ScaleSetRegistration) {
	former := formerOf(p.set)
	if rest := slices.DeleteFunc(slices.Clone(former), func(f formerRegistration) bool {
		return p.hasReturned(f.ScaleSetRegistration, present)
	}); len(rest) < len(former) {
		setFormer(p.set, rest)
	}
}

// hasReturned reports whether a former registration is the present one, perhaps in another spelling of its address. Only what was just
// created is a second scale set then.
func (p *pass) hasReturned(former, present v1alpha1.ScaleSetRegistration) bool {
	return sameScaleSet(former, present) || !p.lastSync.Result.posted && mayBeOneScaleSet(former, present)
}

// isFormer reports whether a scale set is on the list.
func isFormer(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration) bool {
	return slices.ContainsFunc(formerOf(set), func(f formerRegistration) bool { return sameScaleSet(f.ScaleSetRegistration, registration) })
}

// mayBeFormer reports whether a scale set is on the list, perhaps in another spelling of its address.
func (p *pass) mayBeFormer(registration v1alpha1.ScaleSetRegistration) bool {
	return slices.ContainsFunc(formerOf(p.set), func(f formerRegistration) bool { return mayBeOneScaleSet(f.ScaleSetRegistration, registration) })
}

// sameScaleSet compares id and address, but not name and group, which can be changed on GitHub.
func sameScaleSet(a, b v1alpha1.ScaleSetRegistration) bool {
	return a.ID == b.ID && sameURL(a.URL, b.URL)
}

// mayBeOneScaleSet also takes other spellings of the address into account.
func mayBeOneScaleSet(a, b v1alpha1.ScaleSetRegistration) bool {
	return a.ID == b.ID && mayBeOneAddress(a.URL, b.URL)
}

// formerReference returns how a former registration was reached, and false if that is not known. The address is the registration's
// and the namespace the set's, whatever somebody may have written into the annotation.
func formerReference(set *v1alpha1.AutoscalingRunnerSet, registration v1alpha1.ScaleSetRegistration) (credentials.Reference, bool) {
	former := formerOf(set)
	i := slices.IndexFunc(former, func(f formerRegistration) bool { return f.ScaleSetRegistration == registration })
	if i < 0 || former[i].Credentials == nil && former[i].Secret == "" {
		return credentials.Reference{}, false
	}
	reference := credentials.ForAutoscalingRunnerSet(set)
	if kept := former[i].Credentials; kept != nil {
		reference = *kept
	} else {
		reference.GitHubConfigSecret = former[i].Secret
	}
	reference.Namespace, reference.GitHubConfigURL = set.Namespace, registration.URL
	return reference, true
}

// referenceAt returns how GitHub is reached at an address. It returns false if only the status, which can be edited by hand, shows
// that the set was ever there, because credentials must not be sent to such an address. Listener and runners have the former address
// until the set is registered at the new one.
func (c *Controller) referenceAt(p *pass, address string) (credentials.Reference, bool) {
	known := []credentials.Reference{credentials.ForAutoscalingRunnerSet(p.set)}
	if listener := p.listener(); listener != nil {
		reference := credentials.ForAutoscalingListener(listener)
		reference.Namespace = p.set.Namespace // whatever somebody may have written into its spec
		known = append(known, reference)
	}
	if runnerSet := p.runnerSet(); runnerSet != nil {
		known = append(known, credentials.ForEphemeralRunnerSet(runnerSet))
	}
	if last, asked := c.syncs.Last(p.key); asked && last.Result.set != nil {
		known = append(known, last.Result.reference)
	}
	if i := slices.IndexFunc(known, func(r credentials.Reference) bool { return sameURL(r.GitHubConfigURL, address) }); i >= 0 {
		return known[i], true
	}
	return credentials.Reference{}, false
}

// referencesTo returns how a registration may be reached: as it was when it was created, then as the spec says now, unless that is
// for another server. The address keeps its spelling, because the status may have been edited to send credentials to http:// instead
// of https://.
func (c *Controller) referencesTo(p *pass, registration v1alpha1.ScaleSetRegistration) []credentials.Reference {
	var references []credentials.Reference
	then, known := formerReference(p.set, registration)
	if !known {
		then, known = c.referenceAt(p, registration.URL)
	}
	if known {
		references = append(references, then)
	}
	present := credentials.ForAutoscalingRunnerSet(p.set)
	if !sameServer(present.GitHubConfigURL, registration.URL) {
		return references
	}
	present.GitHubConfigURL = cmp.Or(then.GitHubConfigURL, registration.URL)
	if !known || !equality.Semantic.DeepEqual(then, present) {
		references = append(references, present)
	}
	return references
}

// leave lists the registration at another address as a former one, unless it is only in the status.
func (c *Controller) leave(ctx context.Context, p *pass, previous v1alpha1.ScaleSetRegistration) {
	reference, proven := c.referenceAt(p, previous.URL)
	if !proven {
		c.recordUnproven(ctx, p, previous)
		return
	}
	addFormer(p.set, formerRegistration{ScaleSetRegistration: previous, Credentials: &reference})
}

// leaveUnrecorded handles what the last call created at an address that the set left before the answer was recorded: it becomes a
// former registration or, if the answer was lost, an Event says what may be left. except is an address that is handled elsewhere.
func (c *Controller) leaveUnrecorded(ctx context.Context, p *pass, except string) error {
	last, _ := c.syncs.Last(p.key)
	asked := last.Result
	if last.Running() || !asked.posted || mayBeOneAddress(asked.desired.URL, except) {
		return nil
	}
	if r := p.registration; r != nil && sameURL(r.URL, asked.desired.URL) && (asked.set == nil || asked.set.ID == r.ID) {
		return nil
	}
	if asked.set == nil {
		c.recordFarewell(ctx, p, perhapsLeftBehind(asked.desired, last.Err))
	} else {
		before := p.set.DeepCopy()
		addFormer(p.set, formerRegistration{ScaleSetRegistration: *asked.registration(), Credentials: &asked.reference})
		if _, err := kube.Patch(ctx, c.options.Client, p.set, before); err != nil {
			return fmt.Errorf("record a former registration: %w", err)
		}
	}
	c.syncs.Forget(p.key)
	return nil
}

// recordUnproven records an Event about a registration that is only in the status, unless it is listed as a former one: then it was
// proven when it was listed.
func (c *Controller) recordUnproven(ctx context.Context, p *pass, registration v1alpha1.ScaleSetRegistration) {
	if !isFormer(p.set, registration) {
		c.recordFarewell(ctx, p, unproven(registration))
	}
}

// setFormer writes the annotation, or removes it if the list is empty.
func setFormer(set *v1alpha1.AutoscalingRunnerSet, former []formerRegistration) {
	if len(former) == 0 {
		delete(set.Annotations, annotationFormer)
		return
	}
	text, _ := json.Marshal(former) //nolint:gosec // the Secret's name, not its content; strings and numbers can't fail to encode
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
			return p.uses(&runner, r)
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

// present reports whether a registration is in use again, or may be: the set is on its way back to the address, and which scale set
// it will find there is not known yet.
func (p *pass) present(r v1alpha1.ScaleSetRegistration) bool {
	if p.registration != nil && p.hasReturned(r, *p.registration) {
		return true
	}
	return mayBeOneAddress(r.URL, p.desired.URL) && (p.registration == nil || !sameURL(p.registration.URL, p.desired.URL))
}

// uses reports whether a runner is registered with a former scale set. Its spec has the address of the time when it was created, under
// which the scale set may have been known before.
func (p *pass) uses(runner *v1alpha1.EphemeralRunner, former v1alpha1.ScaleSetRegistration) bool {
	address := runner.Spec.GitHubConfigUrl
	isPresent := p.registration != nil && mayBeOneAddress(address, p.registration.URL)
	return runner.Spec.RunnerScaleSetID == former.ID && (sameURL(address, former.URL) || !isPresent && mayLeadToOnePlace(address, former.URL))
}

// listensTo reports whether the spec of the listener or of the runners still has the registration.
func (p *pass) listensTo(registration v1alpha1.ScaleSetRegistration) bool {
	listener, runnerSet := p.listener(), p.runnerSet()
	return listener != nil && listener.Spec.RunnerScaleSetID == registration.ID && sameURL(listener.Spec.GitHubConfigUrl, registration.URL) ||
		runnerSet != nil && runnerSet.Spec.EphemeralRunnerSpec.RunnerScaleSetID == registration.ID &&
			sameURL(runnerSet.Spec.EphemeralRunnerSpec.GitHubConfigUrl, registration.URL)
}

// forgetFormer reduces the list to rest, and records Events about the outcome of the others.
func (c *Controller) forgetFormer(ctx context.Context, p *pass, state deregistrationState, rest []formerRegistration) error {
	before := p.set.DeepCopy()
	setFormer(p.set, rest)
	if _, err := kube.Patch(ctx, c.options.Client, p.set, before); err != nil {
		return fmt.Errorf("forget former registrations: %w", err)
	}
	c.recordDeregistration(ctx, p, state)
	return nil
}
