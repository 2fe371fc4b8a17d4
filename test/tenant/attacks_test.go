package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

// attack is an attempt of team b. After each the witness checks what no attack may do.
type attack struct {
	name string
	// objects are written by team b's account.
	objects func(s *stage) []client.Object
	// act does the rest, after the objects were written.
	act func(s *stage) error
	// refused is the field that the API server names when it refuses the objects. Empty: it takes them.
	refused string
	// says fails until team b is told why the attack doesn't do what it is meant to, or until what is harmless in it
	// works.
	says func(s *stage) error
	// atStart: team b is told when a manager starts, and otherwise within an hour.
	atStart bool
	// harm lists the attack's effects that the witness doesn't see.
	harm func(s *stage) []string
}

// tables has the attacks by what they are about.
func tables() map[string][]attack {
	return map[string][]attack{
		"listeners": listenerAttacks(), "vault": vaultAttacks(), "limits": limitAttacks(),
		"addresses": addressAttacks(), "templates": templateAttacks(), "runners": runnerAttacks(),
		"clients": clientAttacks(), "series": seriesAttacks(), "ledger": ledgerAttacks(),
	}
}

// one is an attack by a single scale set.
func one(name string, change func(s *stage, set *v1alpha1.AutoscalingRunnerSet)) func(*stage) []client.Object {
	return func(s *stage) []client.Object {
		return []client.Object{s.set(name, func(set *v1alpha1.AutoscalingRunnerSet) { change(s, set) })}
	}
}

// told returns a check that a condition of team b's scale set isn't true for one of the reasons, and that its message
// has all the texts.
func told(name, condition string, reasons []string, texts ...string) func(*stage) error {
	return func(s *stage) error {
		found, err := s.condition(name, condition)
		switch {
		case err != nil:
			return err
		case found == nil:
			return fmt.Errorf("scale set %s has no condition %s", name, condition)
		case found.Status == metav1.ConditionTrue || !slices.Contains(reasons, found.Reason):
			return fmt.Errorf("scale set %s says %s=%s/%s (%s), not False/%s",
				name, condition, found.Status, found.Reason, found.Message, strings.Join(reasons, "|"))
		}
		for _, text := range texts {
			if !strings.Contains(found.Message, text) {
				return fmt.Errorf("condition %s of scale set %s doesn't name %q: %s", condition, name, text,
					found.Message)
			}
		}
		return nil
	}
}

// toldBy is like told for a reason that one of two conditions may have.
func toldBy(name string, conditions []string, reasons ...string) func(*stage) error {
	return func(s *stage) error {
		var failures []error
		for _, condition := range conditions {
			err := told(name, condition, reasons)(s)
			if err == nil {
				return nil
			}
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	}
}

// works returns a check that a set's listener polls: the harmless part of the set is done.
func works(name string) func(*stage) error {
	return func(s *stage) error { return s.listening(name) }
}

// all joins checks.
func all(checks ...func(*stage) error) func(*stage) error {
	return func(s *stage) error {
		var failures []error
		for _, check := range checks {
			failures = append(failures, check(s))
		}
		return errors.Join(failures...)
	}
}

func (s *stage) listening(name string) error {
	found, err := s.condition(name, v1alpha1.ConditionListenerReady)
	if err == nil && (found == nil || found.Status != metav1.ConditionTrue) {
		return fmt.Errorf("the listener of %s is not ready: %+v", name, found)
	}
	return err
}

func (s *stage) condition(name, condition string) (*metav1.Condition, error) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	err := s.attacker.client.Get(s.Context(), client.ObjectKey{Namespace: s.attacker.namespace, Name: name}, set)
	return meta.FindStatusCondition(set.Status.Conditions, condition), err
}

// announced returns a check that team b's object of that name has an Event with the reason.
func announced(name, reason string) func(*stage) error {
	return func(s *stage) error {
		var events eventsv1.EventList
		if err := s.attacker.client.List(s.Context(), &events, client.InNamespace(s.attacker.namespace)); err != nil {
			return err
		}
		count := 0
		for _, event := range events.Items {
			if event.Regarding.Name == name && event.Reason == reason {
				count++
			}
		}
		if count == 0 {
			return fmt.Errorf("no Event %s about %s", reason, name)
		}
		return nil
	}
}

// podsOf lists the pods of a namespace as the administrator.
func (s *stage) podsOf(namespace string) []corev1.Pod {
	s.Helper()
	var pods corev1.PodList
	if err := s.rig.Cluster.Client().List(context.Background(), &pods, client.InNamespace(namespace)); err != nil {
		s.Fatal(err)
	}
	return pods.Items
}

// ofAttacker reports whether an object in the manager's namespace is there for a scale set of team b.
func (s *stage) ofAttacker(labels map[string]string) bool {
	return labels[v1alpha1.LabelScaleSetNamespace] == s.attacker.namespace
}

// patchAndAwait changes a set of team b and returns when the manager has seen that.
func (s *stage) patchAndAwait(set *v1alpha1.AutoscalingRunnerSet, patch string) error {
	change := client.RawPatch(types.MergePatchType, []byte(patch))
	if err := s.attacker.client.Patch(s.Context(), set, change); err != nil {
		return err
	}
	wanted := set.Generation
	late, cancel := context.WithTimeout(s.Context(), rig.Patience)
	defer cancel()
	for set.Status.ObservedGeneration < wanted {
		if !rig.Wait(late, 10*time.Millisecond) {
			return fmt.Errorf("generation %d of scale set %s has not been seen", wanted, set.Name)
		}
		if err := s.attacker.client.Get(s.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
	}
	return nil
}
