package tenant

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// annotationFormer is the one in which the first versions listed what a set has left on GitHub.
const annotationFormer = "actions.github.com/former-registrations"

// claim is a way in which a set of team b says that a scale set of team a is its own. It is made by two sets: one that
// is older than team a's and was never registered, and one that is younger.
type claim struct {
	name string
	// plain: team a's GitHub is reached without TLS.
	plain bool
	// spell returns the address that team b's set has; nil means team a's. Team b's server answers there, unless the
	// claim is unheard: then team a's does, which doesn't know the token.
	spell   func(address string) string
	unheard bool
	// answered is the id under which team b's server has the scale set; nil means team a's.
	answered func(id int) int
	// nameless: the set's annotation and spec name no scale set.
	nameless bool
	// unnoted: it has no annotation with the id.
	unnoted bool
	// states are those of records in the status that the set's owner has written, and present writes
	// status.registration.
	states  []v1alpha1.RegistrationState
	present bool
}

// claims has every way that we know.
func claims() []claim {
	same := func(address string) string { return address }
	another := func(scheme string) func(string) string {
		return func(address string) string {
			_, rest, _ := strings.Cut(address, "://")
			return scheme + "://" + rest
		}
	}
	respelt := func(before, after string) func(string) string {
		return func(address string) string { return strings.Replace(address, before, after, 1) }
	}
	next := func(id int) int { return id + 1 }
	return []claim{
		{name: "id and name, by a proxy and an authority of its own", spell: same},
		{name: "id and name, by plain http", spell: another("http")},
		{name: "id and name, of what has no TLS", plain: true, spell: same},
		{name: "id and name, of what has no TLS, by https", plain: true, spell: another("https")},
		{name: "an id alone", nameless: true},
		{name: "a name alone", unnoted: true},
		{name: "a name under another's id", answered: next},
		{name: "with www", spell: respelt("://", "://www.")},
		{name: "with the port", spell: respelt(securedHost, securedHost+":443")},
		{name: "in capitals, with a slash", spell: func(address string) string {
			return "https" + strings.ToUpper(strings.TrimPrefix(address, "https")) + "/"
		}},
		{name: "an annotation and no credentials", unheard: true},
		{name: "a status and no credentials", unheard: true, present: true},
		{name: "a status and an own server", present: true, unnoted: true},
		{
			name: "records and no credentials", unheard: true, present: true,
			states: []v1alpha1.RegistrationState{
				v1alpha1.RegistrationCurrent, v1alpha1.RegistrationAsked, v1alpha1.RegistrationLeaving,
			},
		},
		{
			name: "records and an own server", present: true, unnoted: true,
			states: []v1alpha1.RegistrationState{v1alpha1.RegistrationAsked, v1alpha1.RegistrationLeaving},
		},
	}
}

// address is the one of team b's set.
func (m *claim) address(of string) string {
	if m.spell == nil {
		return of
	}
	return m.spell(of)
}

// registration is what team b says that it has.
func (m *claim) registration(of *owned) v1alpha1.ScaleSetRegistration {
	made := v1alpha1.ScaleSetRegistration{URL: m.address(of.address()), Group: "Default", Name: of.name, ID: of.id}
	if m.answered != nil {
		made.ID = m.answered(of.id)
	}
	if m.nameless {
		made.Name = ""
	}
	return made
}

// claimant is a set of team b that doesn't make its claim yet.
func (c *contest) claimant(of *owned, suffix string) *v1alpha1.AutoscalingRunnerSet {
	made := of.claim
	return c.set(c.claimants(of, suffix), func(set *v1alpha1.AutoscalingRunnerSet) {
		proxy, authority := c.proxies.attackers, "ca"
		if made.unheard {
			proxy, authority = c.proxies.victims, "genuine"
		}
		reach(set, made.address(of.address()), proxy, authority)
		set.Spec.RunnerScaleSetName = of.name
		set.Spec.GitHubConfigSecret = noSecret
		set.Labels[v1alpha1.LabelScaleSetName] = set.Name
	})
}

// claimants is the name of the object.
func (c *contest) claimants(of *owned, suffix string) string {
	return "claim-" + strings.TrimPrefix(of.object, "precious-") + "-" + suffix
}

// press has a set of team b make its claim.
func (c *contest) press(of *owned, set *v1alpha1.AutoscalingRunnerSet) {
	c.Helper()
	claimed := of.claim.registration(of)
	annotations := map[string]string{}
	if !of.claim.unnoted {
		annotations[v1alpha1.AnnotationRunnerScaleSetID] = strconv.Itoa(claimed.ID)
		annotations[v1alpha1.AnnotationRunnerGroupName] = claimed.Group
		annotations[v1alpha1.AnnotationRunnerScaleSetName] = claimed.Name
	}
	status := map[string]any{}
	if of.claim.present {
		status["registration"] = claimed
	}
	var records []v1alpha1.RegistrationRecord
	for _, state := range of.claim.states {
		records = append(records, v1alpha1.RegistrationRecord{
			UID: set.UID, ScaleSetRegistration: claimed, State: state, Since: set.CreationTimestamp,
		})
		if state == v1alpha1.RegistrationLeaving {
			listed, err := json.Marshal([]v1alpha1.ScaleSetRegistration{claimed})
			if err != nil {
				c.Fatal(err)
			}
			annotations[annotationFormer] = string(listed)
		}
	}
	if len(records) > 0 {
		status["registrations"] = records
	}
	if len(status) > 0 { // first, so that no pass sees the rest without it
		c.update(c.attacker.client, set, map[string]any{"status": status}, "status")
	}
	c.update(c.attacker.client, set, map[string]any{
		"spec":     map[string]any{"githubConfigSecret": tokenSecret},
		"metadata": map[string]any{"annotations": annotations},
	})
}
