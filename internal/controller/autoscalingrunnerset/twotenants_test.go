package autoscalingrunnerset_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/ledger"
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
			ledger.Register(s, registration)
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
	for _, condition := range set.Status.Conditions {
		if strings.Contains(condition.Message, attackerKey.Namespace) {
			return "the victim is told of another's namespace: " + condition.Message
		}
	}
	attacker := &v1alpha1.AutoscalingRunnerSet{}
	controllertest.Read(h, h.client, attackerKey, attacker)
	for _, condition := range attacker.Status.Conditions {
		if strings.Contains(condition.Message, setNamespace) {
			return "the attacker is told of the victim's namespace: " + condition.Message
		}
	}
	return ""
}

// held returns the ways by which scale sets are recorded to be held.
func (f *fixture) held() (ways []string) {
	f.Helper()
	var leases coordinationv1.LeaseList
	if err := f.client.List(f.Context(), &leases); err != nil {
		f.Fatal(err)
	}
	for i := range leases.Items {
		ways = append(ways, leases.Items[i].Annotations["actions.github.com/reached-by"])
	}
	return ways
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

// TestMoveToAnotherNamespaceKeepsTheQueue: the set is installed in its new namespace, told that the scale set is in use,
// and gets it, with its queue, when the old one is uninstalled.
func TestMoveToAnotherNamespaceKeepsTheQueue(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		moved := types.NamespacedName{Namespace: "new-home", Name: "set"}
		f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Namespace, s.UID = moved.Namespace, "moved-uid"
			s.Labels[v1alpha1.LabelScaleSetNamespace] = moved.Namespace
		}))
		pass := func(times int) *v1alpha1.AutoscalingRunnerSet {
			for range times {
				controllertest.Reconcile(f, f.controller, moved)
				controllertest.Reconcile(f, f.controller, setKey)
				controllertest.Elapse(2 * statusInterval)
			}
			set := &v1alpha1.AutoscalingRunnerSet{}
			controllertest.Read(f, f.client, moved, set)
			return set
		}
		told := pass(5)
		controllertest.WantCondition(f, told.Status.Conditions, v1alpha1.ConditionStalled, metav1.ConditionTrue,
			v1alpha1.ReasonScaleSetInUse)
		if stalled := meta.FindStatusCondition(told.Status.Conditions, v1alpha1.ConditionStalled); strings.Contains(
			stalled.Message, setNamespace) {
			t.Errorf("the second one is told of another's namespace: %s", stalled.Message)
		}
		f.delete()
		if got := pass(10).Status.Registration; got == nil || got.ID != 1 || !f.gone() {
			t.Errorf("registration %+v, the old set is gone: %t", got, f.gone())
		}
	})
}

// TestChangedCertificatesDrainNothing: the record of who holds the scale set moves to the new way.
func TestChangedCertificatesDrainNothing(t *testing.T) {
	inBubble(t, func(f *fixture) {
		ways := &changingWay{fakeGitHub: f.github}
		f.way.Connections = ways
		f.working()
		before := f.runnerSets()[0].UID
		ways.roots = "-----BEGIN CERTIFICATE-----\nbmV3\n-----END CERTIFICATE-----\n"
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubServerTLS = &v1alpha1.TLSConfig{} })
		f.settle()
		if held := f.held(); len(held) != 1 || !strings.Contains(held[0], "with certificates") {
			t.Errorf("records %q, want one by the new way", held)
		}
		if sets := f.runnerSets(); len(sets) != 1 || sets[0].UID != before || sets[0].DeletionTimestamp != nil ||
			len(f.listeners()) != 1 || f.set().Status.Registration.ID != 1 {
			t.Errorf("runner sets %+v, registration %+v", sets, f.set().Status.Registration)
		}
	})
}

// changingWay reaches GitHub with certificates that may change.
type changingWay struct {
	*fakeGitHub
	roots string
}

func (g *changingWay) Resolve(
	ctx context.Context, reference credentials.Reference, afresh bool,
) (*credentials.Resolved, error) {
	resolved, err := g.fakeGitHub.Resolve(ctx, reference, afresh)
	if err == nil {
		resolved.RootCAs = g.roots
	}
	return resolved, err
}

func (g *changingWay) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	github, err := g.fakeGitHub.GitHub(ctx, reference)
	if err != nil {
		return nil, err
	}
	return byWay{github, credentials.WayTo(reference.GitHubConfigURL, reference.Namespace, g.roots)}, nil
}

type byWay struct {
	scaleset.GitHub
	way credentials.Way
}

func (g byWay) Way() credentials.Way { return g.way }

// TestUninstallSparesWhatAnotherClusterListensTo: both clusters were restored from one backup.
func TestUninstallSparesWhatAnotherClusterListensTo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.working()
		f.github.Sessions = map[int]bool{1: true}
		f.delete()
		for range 60 {
			f.settle()
		}
		if len(f.github.Sets[address]) != 1 || !f.gone() {
			t.Errorf("gone %t, on GitHub %+v, want the scale set kept", f.gone(), f.github.Sets[address])
		}
		if events := strings.Join(f.events(), "\n"); !strings.Contains(events, "somebody else listens to it") {
			t.Errorf("events %s", events)
		}
		if held := f.held(); len(held) > 0 {
			t.Errorf("records %q stay", held)
		}
	})
}

// TestRecordsOfASetWithoutFinalizerGo: somebody has removed it.
func TestRecordsOfASetWithoutFinalizerGo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Finalizers = nil })
		f.delete()
		f.reconcile()
		if held := f.held(); len(held) > 0 || !f.gone() {
			t.Errorf("gone %t, records %q", f.gone(), held)
		}
	})
}
