package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/crdcheck"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/kube/revisions"
)

// PartOfController is the label value that identifies the Deployment of the controller's chart, whatever its name.
const PartOfController = "gha-rs-controller"

// atOnce is the maximum number of concurrent requests to the API server. A request takes some tens of milliseconds from
// a laptop: fifty scale sets are checked in a second, without delaying the requests of others.
const atOnce = 10

// gathering is a snapshot while several goroutines take it.
type gathering struct {
	*Snapshot
	cluster Cluster
	unread  sync.Mutex
}

// Gather reads a snapshot of the scale sets in a namespace ("" means all) with a name ("" means any). It fails only if
// the scale sets themselves can't be read although their kind is installed, or if the time is up.
func Gather(ctx context.Context, cluster Cluster, namespace, name string) (*Snapshot, error) {
	g := gathering{cluster: cluster, Snapshot: &Snapshot{Namespace: namespace, Name: name, Unread: map[string]error{}}}
	g.installations(ctx)
	sets := &v1alpha1.AutoscalingRunnerSetList{}
	err := g.list(ctx, sets, client.InNamespace(namespace))
	if len(sets.Items) == 0 && cluster.CheckServer != nil { // other servers may answer so, too
		if foreign, ok := errors.AsType[*ForeignServerError](cluster.CheckServer(ctx)); ok {
			return nil, foreign
		}
	}
	if apierrors.IsNotFound(err) {
		g.NotInstalled = true
		return g.Snapshot, nil
	}
	if err != nil {
		return nil, cluster.unlisted(err, namespace)
	}
	g.gatherCRDs(ctx)
	g.choose(sets.Items)
	g.gatherElsewhere(ctx)
	g.claims(ctx, sets.Items)
	g.storageClasses(ctx)
	g.left(ctx, sets.Items)
	if err := g.gatherSets(ctx); err != nil {
		return nil, fmt.Errorf("check %d scale sets: %w; use -n NAMESPACE or a scale set's name to check fewer",
			len(g.Sets), err)
	}
	return g.Snapshot, nil
}

// installations reads what the controller's chart runs.
func (g *gathering) installations(ctx context.Context) {
	managers, ledgers := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	g.read(ctx, managers, "Deployments", client.MatchingLabels{v1alpha1.LabelPartOf: PartOfController})
	g.read(ctx, ledgers, "StatefulSets", client.MatchingLabels{v1alpha1.LabelPartOf: v1alpha1.PartOfHarrier,
		v1alpha1.LabelComponent: v1alpha1.ComponentHistory})
	g.Managers, g.Ledgers = managers.Items, ledgers.Items
	namespaces := map[string]bool{}
	for i := range g.Managers {
		namespaces[g.Managers[i].Namespace] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		pods := &corev1.PodList{}
		g.read(ctx, pods, "Pods of managers", client.InNamespace(namespace),
			client.MatchingLabelsSelector{Selector: revisions.Selector()})
		g.ManagerPods = append(g.ManagerPods, pods.Items...)
	}
}

// gatherElsewhere notes the scale sets of all namespaces if the requested namespace has no requested one, and if the
// caller may list them.
func (g *gathering) gatherElsewhere(ctx context.Context) {
	sets := &v1alpha1.AutoscalingRunnerSetList{}
	if len(g.Sets) > 0 || g.Namespace == "" || g.cluster.List(ctx, sets) != nil {
		return
	}
	g.Others = nil
	for i := range sets.Items {
		g.Others = append(g.Others, sets.Items[i].Namespace+"/"+sets.Items[i].Name)
	}
}

// choose keeps the requested sets, and the names of the others.
func (g *gathering) choose(sets []v1alpha1.AutoscalingRunnerSet) {
	for i := range sets {
		set := &sets[i]
		if g.Name != "" && set.Name != g.Name && set.Spec.RunnerScaleSetName != g.Name {
			g.Others = append(g.Others, set.Namespace+"/"+set.Name)
			continue
		}
		g.Sets = append(g.Sets, Set{AutoscalingRunnerSet: *set, Now: time.Now()})
	}
}

// gatherSets reads what belongs to the sets. Whatever the sets of a namespace share is read a single time.
func (g *gathering) gatherSets(ctx context.Context) error {
	g.listeners(ctx)
	g.bindings(ctx)
	if len(g.Sets) == 0 {
		return nil
	}
	namespaces := map[string][]*Set{}
	every := make([]*Set, len(g.Sets))
	for i := range g.Sets {
		every[i] = &g.Sets[i]
		namespaces[every[i].Namespace] = append(namespaces[every[i].Namespace], every[i])
	}
	err := kube.ForEach(ctx, atOnce, slices.Sorted(maps.Keys(namespaces)),
		func(ctx context.Context, namespace string) error {
			g.gatherNamespace(ctx, namespace, namespaces[namespace])
			return nil
		})
	return errors.Join(err, kube.ForEach(ctx, atOnce, every, func(ctx context.Context, set *Set) error {
		set.Credentials = g.credentials(ctx, &set.AutoscalingRunnerSet)
		g.denyListener(ctx, set)
		return nil
	}))
}

// gatherCRDs notes what the CustomResourceDefinitions lack.
func (g *gathering) gatherCRDs(ctx context.Context) {
	if g.cluster.CheckCRDs == nil {
		return
	}
	err := g.cluster.CheckCRDs(ctx)
	if _, ok := errors.AsType[*crdcheck.OutdatedError](err); ok {
		g.OutdatedCRDs = err
		return
	}
	g.note("schemas", err)
}

// gatherNamespace reads what belongs to the sets of one namespace.
func (g *gathering) gatherNamespace(ctx context.Context, namespace string, sets []*Set) {
	runnerSets, runners := &v1alpha1.EphemeralRunnerSetList{}, &v1alpha1.EphemeralRunnerList{}
	pods, quotas := &corev1.PodList{}, &corev1.ResourceQuotaList{}
	ours := []client.ListOption{client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelScaleSetName}}
	if len(sets) == 1 {
		ours[1] = client.MatchingLabels{v1alpha1.LabelScaleSetName: sets[0].Name}
	}
	g.read(ctx, runnerSets, "EphemeralRunnerSets", ours...)
	g.read(ctx, runners, "EphemeralRunners", ours...)
	g.read(ctx, pods, "Pods", ours...)
	g.read(ctx, quotas, "ResourceQuotas", client.InNamespace(namespace))
	budgets := &policyv1.PodDisruptionBudgetList{}
	g.read(ctx, budgets, "PodDisruptionBudgets", client.InNamespace(namespace))
	if g.wasUnread("PodDisruptionBudgets") {
		budgets = nil
	}
	jobPods := g.jobPods(ctx, namespace, sets)
	warnings := &corev1.EventList{}
	g.read(ctx, warnings, "Events", client.InNamespace(namespace), client.Limit(eventsAtMost),
		client.MatchingFields{eventType: corev1.EventTypeWarning})
	manager, unmarked := g.deniedManager(ctx, namespace, managerNeeds), g.deniedManager(ctx, namespace, managerMarks)
	slices.SortStableFunc(runnerSets.Items, func(a, b v1alpha1.EphemeralRunnerSet) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for _, set := range sets {
		set.RunnerSets = ofSet(set.Name, runnerSets.Items, func(r *v1alpha1.EphemeralRunnerSet) client.Object {
			return r
		})
		set.Runners = ofSet(set.Name, runners.Items, func(r *v1alpha1.EphemeralRunner) client.Object { return r })
		set.Pods = ofSet(set.Name, pods.Items, func(p *corev1.Pod) client.Object { return p })
		set.SortPods(jobPods)
		set.Quotas, set.Budgets, set.Unmarked = quotas.Items, budgets, unmarked
		for i := range warnings.Items {
			if set.concerns(warnings.Items[i].InvolvedObject) {
				set.Warnings = append(set.Warnings, warnings.Items[i])
			}
		}
		set.deny(manager)
	}
}

const (
	// Of a namespace eventsAtMost warnings are read. More would take longer without adding much.
	eventsAtMost = 1000
	// eventType is the field by which the API server selects warnings.
	eventType = "type"
)

// jobPods reads the pods of container hooks. Those that the chart's template made are among the sets' own, too; others
// are known by the hooks' label only.
func (g *gathering) jobPods(ctx context.Context, namespace string, sets []*Set) []corev1.Pod {
	pods := &corev1.PodList{}
	if slices.ContainsFunc(sets, (*Set).UsesContainerHooks) {
		g.read(ctx, pods, "Pods", client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelRunnerPod})
	}
	return pods.Items
}

// ofSet returns the objects with a set's label.
func ofSet[T any](name string, items []T, object func(*T) client.Object) (found []T) {
	for i := range items {
		if object(&items[i]).GetLabels()[v1alpha1.LabelScaleSetName] == name {
			found = append(found, items[i])
		}
	}
	return found
}

// listeners reads all listeners and gives each set its own, which is in its manager's namespace.
func (g *gathering) listeners(ctx context.Context) {
	list := &v1alpha1.AutoscalingListenerList{}
	g.read(ctx, list, "AutoscalingListeners")
	g.Listeners = list.Items
	bySet := map[types.NamespacedName][]v1alpha1.AutoscalingListener{}
	for _, listener := range g.Listeners {
		if listener.DeletionTimestamp == nil && g.MayServe(listener.Namespace) {
			set := kube.LabelledSet(&listener)
			bySet[set] = append(bySet[set], listener)
		}
	}
	for i := range g.Sets {
		set := &g.Sets[i]
		if labelled := bySet[client.ObjectKeyFromObject(set)]; len(labelled) > 0 {
			kube.SortListeners(&set.AutoscalingRunnerSet, labelled)
			set.Listener = &labelled[0]
		}
	}
}

// allowed returns the addresses that scale sets may use, nil if they are not known: no manager is seen, or one of
// several may serve a set.
func (g *gathering) allowed() *addresses.Policy {
	if len(g.Managers) != 1 {
		return nil
	}
	var allowed []string
	for _, container := range g.Managers[0].Spec.Template.Spec.Containers {
		for _, argument := range container.Args {
			if address, found := strings.CutPrefix(argument, "--"+addresses.Flag+"="); found {
				allowed = append(allowed, address)
			}
		}
	}
	policy, err := addresses.New(allowed)
	if err != nil {
		return nil // the manager doesn't start with it, which is reported
	}
	return policy
}

// credentials returns an error if the set's addresses or its Secret are wrong. It does not ask a vault: the doctor has
// no credentials for it.
func (g *gathering) credentials(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) error {
	reference := credentials.ForAutoscalingRunnerSet(set)
	provider := credentials.New(g.cluster, credentials.Options{Addresses: g.allowed()})
	if err := provider.CheckAddresses(reference); err != nil || set.Spec.VaultConfig != nil {
		return err
	}
	_, err := provider.Resolve(ctx, reference)
	var status apierrors.APIStatus
	switch {
	case credentials.IsUserError(err):
		return err
	case errors.As(err, &status):
		g.note("Secrets", err)
	}
	return nil
}

// read lists objects, and notes the error if it fails.
func (g *gathering) read(ctx context.Context, list client.ObjectList, what string, options ...client.ListOption) {
	if err := g.list(ctx, list, options...); !apierrors.IsNotFound(err) { // a kind that is not installed
		g.note(what, err)
	}
}

// list lists objects, and notes those that can't be decoded.
func (g *gathering) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	unreadable, err := informer.ListReadable(ctx, g.cluster, OurKinds(), list, options...)
	g.unread.Lock()
	defer g.unread.Unlock()
	g.Unreadable = append(g.Unreadable, unreadable...)
	return err
}

// OurKinds are the kinds whose objects Go may be unable to decode. The API server decodes its built-in kinds into the
// same Go types.
var OurKinds = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme)) // no input makes it fail
	return scheme
})

// note records why a kind was not read, if there was an error.
func (g *gathering) note(what string, err error) {
	if err == nil {
		return
	}
	g.unread.Lock()
	defer g.unread.Unlock()
	g.Unread[what] = err
}

// wasUnread reports whether a kind could not be read.
func (g *gathering) wasUnread(what string) bool {
	g.unread.Lock()
	defer g.unread.Unlock()
	return g.Unread[what] != nil
}

// concerns reports whether an object is the set, what pulls its images, a claim of it, a runner of one of its EphemeralRunnerSets, or the pod
// of such a runner. The set's own name is not enough: runners of linux-large are not those of linux.
func (s *Set) concerns(object corev1.ObjectReference) bool {
	switch object.Kind {
	case "AutoscalingRunnerSet":
		return object.Name == s.Name
	case "EphemeralRunner", "Pod":
		return s.named(object.Name)
	case "DaemonSet": // the chart's for prepull, whose pods may be refused
		return object.Name == s.Name+"-gha-rs-prepull"
	case "PersistentVolumeClaim":
		return slices.ContainsFunc(s.Claims, func(claim corev1.PersistentVolumeClaim) bool {
			return claim.Name == object.Name
		})
	}
	return false
}
