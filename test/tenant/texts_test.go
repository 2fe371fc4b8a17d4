package tenant

import (
	"fmt"
	"slices"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// tellNothing checks that nothing that the manager writes in a team's namespace names the other team's.
func (c *contest) tellNothing() {
	c.Helper()
	var told []string
	for reader, other := range map[*team]*team{c.victim: c.attacker, c.attacker: c.victim} {
		for where, text := range c.textsFor(reader) {
			names := strings.Contains(text, other.namespace) ||
				(other == c.victim && strings.Contains(text, "precious-")) ||
				(other == c.attacker && strings.Contains(text, "claim-"))
			if names {
				told = append(told, fmt.Sprintf("%s: %s", where, text))
			}
		}
	}
	slices.Sort(told)
	report(c.T, "names an object of another namespace", told)
}

// textsFor are the texts of conditions and Events in a team's namespace.
func (c *contest) textsFor(of *team) map[string]string {
	c.Helper()
	texts := map[string]string{}
	var sets v1alpha1.AutoscalingRunnerSetList
	var events eventsv1.EventList
	for _, list := range []client.ObjectList{&sets, &events} {
		if err := of.client.List(c.Context(), list, client.InNamespace(of.namespace)); err != nil {
			c.Fatal(err)
		}
	}
	for i := range sets.Items {
		for _, condition := range sets.Items[i].Status.Conditions {
			texts[sets.Items[i].Name+" "+condition.Type] = condition.Message
		}
	}
	for _, event := range events.Items {
		texts["Event "+event.Name] = event.Note
	}
	return texts
}

// conditionsOf are the conditions of a set that explain why it doesn't work.
func conditionsOf(set *v1alpha1.AutoscalingRunnerSet) string {
	var texts []string
	for _, condition := range set.Status.Conditions {
		healthy := condition.Status == metav1.ConditionTrue && condition.Type != v1alpha1.ConditionStalled
		if !healthy && condition.Message != "" {
			texts = append(texts, fmt.Sprintf("%s=%s/%s: %s", condition.Type, condition.Status, condition.Reason,
				condition.Message))
		}
	}
	return strings.Join(texts, "; ")
}
