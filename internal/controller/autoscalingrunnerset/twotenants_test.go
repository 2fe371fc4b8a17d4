package autoscalingrunnerset_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// attackerKey is the set of a tenant who has no credentials for the first set's address, and writes whatever it likes in
// its own namespace.
var attackerKey = types.NamespacedName{Namespace: "other-team", Name: "set"}

// twoTenants leads the attacker to a server of its own by every way on which it may have one: with its own certificates,
// and by http. By any other it meets GitHub, which refuses it.
type twoTenants struct {
	*fakeGitHub
	confirming *confirming
}

func (g twoTenants) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	if reference.Namespace != attackerKey.Namespace {
		return g.fakeGitHub.GitHub(ctx, reference)
	}
	roots := ""
	if reference.TLS != nil {
		roots = "-----BEGIN CERTIFICATE-----\nb3du\n-----END CERTIFICATE-----\n"
	}
	if roots == "" && strings.HasPrefix(reference.GitHubConfigURL, "https:") {
		return nil, actions.ErrUnauthorized
	}
	way := credentials.WayTo(reference.GitHubConfigURL, reference.Namespace, roots)
	return confirmingBy{g.confirming, way}, nil
}

// confirming says of every scale set that it is there, under the id that the attacker wants and the name that is asked
// for.
type confirming struct {
	id     int
	victim string
}

type confirmingBy struct {
	*confirming
	way credentials.Way
}

func (g confirmingBy) answer(id int, name string) (*actions.RunnerScaleSet, error) {
	set := labelled(id, name, 1, name)
	set.RunnerGroupName = "Default"
	return &set, nil
}

func (g confirmingBy) GetRunnerScaleSet(_ context.Context, _ int, name string) (*actions.RunnerScaleSet, error) {
	return g.answer(g.id, name)
}

func (g confirmingBy) GetRunnerScaleSetByID(_ context.Context, id int) (*actions.RunnerScaleSet, error) {
	return g.answer(id, g.victim)
}

func (g confirmingBy) CreateRunnerScaleSet(
	_ context.Context, set *actions.RunnerScaleSet,
) (*actions.RunnerScaleSet, error) {
	return g.answer(g.id, set.Name)
}

func (g confirmingBy) UpdateRunnerScaleSet(
	_ context.Context, id int, set *actions.RunnerScaleSet,
) (*actions.RunnerScaleSet, error) {
	return g.answer(id, set.Name)
}

func (confirmingBy) DeleteRunnerScaleSet(context.Context, int) error { return nil }

func (confirmingBy) GetRunnerGroupByName(_ context.Context, name string) (*actions.RunnerGroup, error) {
	return &actions.RunnerGroup{ID: 1, Name: name}, nil
}

func (confirmingBy) HasSession(context.Context, int) (bool, error) { return true, nil }

func (g confirmingBy) Way() credentials.Way { return g.way }

// history draws what two tenants do.
type history struct {
	*fixture
	*rand.Rand
	server *confirming
	// wanted is what the victim wants, nil while it has uninstalled.
	wanted *v1alpha1.AutoscalingRunnerSetSpec
	told   []string
}

func (h *history) tell(format string, values ...any) {
	h.told = append(h.told, fmt.Sprintf(format, values...))
}

// attack writes the attacker's set anew, or takes it away.
func (h *history) attack() {
	h.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	there := controllertest.Read(h, h.client, attackerKey, set)
	if there && set.DeletionTimestamp != nil {
		return
	}
	if there && h.IntN(4) == 0 {
		h.tell("the attacker uninstalls")
		h.remove(set)
		return
	}
	addresses := []string{address, "http://github.com/my-org", "https://github.com/my-org/", "https://www.github.com/my-org",
		"https://github.com:443/My-Org", "http://github.com:80/my-org"}
	h.server.id, h.server.victim = 1+h.IntN(3), []string{"", setKey.Name, "renamed"}[h.IntN(3)]
	registration := v1alpha1.ScaleSetRegistration{URL: addresses[h.IntN(len(addresses))], Group: "Default",
		Name: []string{"", setKey.Name, "renamed"}[h.IntN(3)], ID: 1 + h.IntN(3)}
	change := func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Spec.GitHubConfigUrl = addresses[h.IntN(len(addresses))]
		s.Spec.RunnerScaleSetName = []string{"", "set", "renamed"}[h.IntN(3)]
		s.Spec.GitHubServerTLS = nil
		if h.IntN(2) == 0 {
			s.Spec.GitHubServerTLS = &v1alpha1.TLSConfig{}
		}
		if h.IntN(2) == 0 {
			journal.Register(s, registration)
		}
		s.Generation++
	}
	if there {
		change(set)
		if err := h.client.Update(h.Context(), set); err != nil {
			h.Fatal(err)
		}
	} else {
		set = newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Namespace, s.Name, s.UID = attackerKey.Namespace, attackerKey.Name, types.UID(fmt.Sprint("attacker-", h.Uint64()))
			s.Labels = map[string]string{v1alpha1.LabelScaleSetName: s.Name, v1alpha1.LabelScaleSetNamespace: s.Namespace}
			s.CreationTimestamp = metav1.NewTime(time.Unix([]int64{1, 4e9}[h.IntN(2)], 0))
		}, change)
		h.create(set)
	}
	if h.IntN(2) == 0 {
		set.Status.Registration = &registration
		set.Status.Registrations = []v1alpha1.RegistrationRecord{{
			UID: set.UID, ScaleSetRegistration: registration, State: v1alpha1.RegistrationCurrent, Since: metav1.Now(),
		}}
		h.updateStatus(set)
	}
	h.tell("the attacker has %s, TLS %t, name %q, annotations %v, status %v, server says id %d", set.Spec.GitHubConfigUrl,
		set.Spec.GitHubServerTLS != nil, set.Spec.RunnerScaleSetName, set.Annotations, set.Status.Registration, h.server.id)
}

// use has the victim install, change its set or uninstall.
func (h *history) use() {
	h.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	there := controllertest.Read(h, h.client, setKey, set)
	if h.wanted == nil {
		if there {
			return // the uninstall goes on
		}
		h.tell("the victim installs")
		set = newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.UID = types.UID(fmt.Sprint("victim-", h.Uint64())) })
		h.create(set)
		h.wanted = &set.Spec
		return
	}
	switch h.IntN(5) {
	case 0:
		h.tell("the victim uninstalls")
		h.remove(set)
		h.wanted = nil
		return
	case 1:
		set.Spec.RunnerScaleSetName = []string{"", "renamed"}[h.IntN(2)]
	case 2:
		set.Spec.RunnerGroup = []string{"", "large"}[h.IntN(2)]
	case 3:
		set.Spec.RunnerScaleSetLabels = []string{fmt.Sprint("label-", h.IntN(3))}
	case 4:
		h.tell("the victim's status is lost, as in a restore")
		set.Status = v1alpha1.AutoscalingRunnerSetStatus{}
		h.updateStatus(set)
		h.restart()
		return
	}
	set.Generation++
	h.tell("the victim wants name %q, group %q, labels %v", set.Spec.RunnerScaleSetName, set.Spec.RunnerGroup,
		set.Spec.RunnerScaleSetLabels)
	if err := h.client.Update(h.Context(), set); err != nil {
		h.Fatal(err)
	}
	h.wanted = &set.Spec
}

// rest lets both sets come to rest.
func (h *history) rest() {
	h.Helper()
	for range 25 {
		for _, key := range []types.NamespacedName{attackerKey, setKey} {
			controllertest.Reconcile(h, h.controller, key)
		}
		controllertest.Elapse(2 * statusInterval)
		h.stop()
	}
}

// remove deletes a set, as an uninstall does.
func (h *history) remove(set *v1alpha1.AutoscalingRunnerSet) {
	h.Helper()
	if err := h.client.Delete(h.Context(), set); err != nil {
		h.Fatal(err)
	}
}

// stop plays the controller of listeners, which says that a listener has stopped, and that of runner sets.
func (h *history) stop() {
	h.Helper()
	for _, listener := range h.listeners() {
		if listener.DeletionTimestamp != nil {
			listener.Finalizers = nil
			if err := h.client.Update(h.Context(), &listener); client.IgnoreNotFound(err) != nil {
				h.Fatal(err)
			}
		}
	}
	for _, runnerSet := range h.runnerSets() {
		if runnerSet.DeletionTimestamp != nil {
			runnerSet.Finalizers = nil
			if err := h.client.Update(h.Context(), &runnerSet); client.IgnoreNotFound(err) != nil {
				h.Fatal(err)
			}
		}
	}
}

// judge returns what the attacker has achieved, "" if that is nothing.
func (h *history) judge() string {
	h.Helper()
	there := h.github.Sets[address]
	set := &v1alpha1.AutoscalingRunnerSet{}
	installed := controllertest.Read(h, h.client, setKey, set)
	if h.wanted == nil {
		if installed || len(there) > 0 {
			return fmt.Sprintf("after the uninstall the set is there: %t, with %v on GitHub", installed, there)
		}
		return ""
	}
	registration := set.Status.Registration
	if registration == nil || len(there) != 1 || !strings.EqualFold(there[registration.ID].Name,
		orName(h.wanted.RunnerScaleSetName)) {
		return fmt.Sprintf("registration %+v, on GitHub %+v", registration, there)
	}
	on := there[registration.ID]
	if wanted := 1 + len(h.wanted.RunnerScaleSetLabels); len(on.Labels) != wanted ||
		(h.wanted.RunnerGroup == "large") != (on.RunnerGroupID == 2) {
		return fmt.Sprintf("the change was not made: %+v", on)
	}
	listening := 0
	for _, listener := range h.listeners() {
		if listener.Spec.AutoscalingRunnerSetNamespace == setNamespace && listener.DeletionTimestamp == nil &&
			listener.Spec.RunnerScaleSetID == registration.ID {
			listening++
		}
	}
	if listening != 1 || meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionStalled) {
		return fmt.Sprintf("%d listeners, conditions %+v", listening, set.Status.Conditions)
	}
	return h.namesTold()
}

// namesTold returns what either tenant was told of the other's namespace.
func (h *history) namesTold() string {
	h.Helper()
	for key, others := range map[types.NamespacedName]string{setKey: attackerKey.Namespace, attackerKey: setNamespace} {
		set := &v1alpha1.AutoscalingRunnerSet{}
		controllertest.Read(h, h.client, key, set)
		for _, condition := range set.Status.Conditions {
			if strings.Contains(condition.Message, others) {
				return key.String() + " is told of another's namespace: " + condition.Message
			}
		}
	}
	return ""
}

func orName(name string) string {
	if name == "" {
		return setKey.Name
	}
	return name
}

// TestWhoHasNoCredentialHindersNobody: whatever a tenant writes, and whatever its own server answers, at whatever
// moment, another tenant keeps its scale set, changes it and takes it away.
func TestWhoHasNoCredentialHindersNobody(t *testing.T) {
	const histories, acts = 20, 12
	for seed := range uint64(histories) {
		inBubble(t, func(f *fixture) {
			h := &history{fixture: f, Rand: rand.New(rand.NewPCG(seed, 41)), server: &confirming{id: 1}}
			f.way.Connections = twoTenants{f.github, h.server}
			for range acts {
				switch h.IntN(5) {
				case 0, 1:
					h.use()
				case 2, 3:
					h.attack()
				case 4:
					h.tell("the manager restarts")
					f.restart()
				}
				if h.IntN(2) == 0 {
					continue
				}
				if h.rest(); h.judge() != "" {
					t.Fatalf("seed %d: %s, after:\n%s", seed, h.judge(), strings.Join(h.told, "\n"))
				}
			}
		})
	}
}
