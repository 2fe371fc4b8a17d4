package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/crdcheck"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// partOfController is what the controller's chart labels its Deployment with, whatever its name is.
const partOfController = "gha-rs-controller"

// Snapshot is what the cluster shows at one time.
type Snapshot struct {
	// Namespace and Name are what was asked for.
	Namespace, Name string
	// NotInstalled is set when the API server does not know our kinds.
	NotInstalled bool
	Managers     []appsv1.Deployment
	Sets         []Set
	// Others are names of scale sets that were not asked for, as NAMESPACE/NAME.
	Others []string
	// OutdatedCRDs is what the CustomResourceDefinitions lack, nil where they are right or it could not be read.
	OutdatedCRDs error
	// Unread are kinds that the caller may not read, and why.
	Unread map[string]error
	// Unreadable are objects of which something can't be decoded; of a set there is the rest.
	Unreadable []*informer.UnreadableError
}

// Set is a scale set with what belongs to it.
type Set struct {
	v1alpha1.AutoscalingRunnerSet
	RunnerSets []v1alpha1.EphemeralRunnerSet
	Runners    []v1alpha1.EphemeralRunner
	Pods       []corev1.Pod
	Quotas     []corev1.ResourceQuota
	// Listener is the set's, nil where there is none or it was not read.
	Listener *v1alpha1.AutoscalingListener
	// Denials are permissions that manager or listener lack.
	Denials []Denial
	// Warnings are Events of type Warning about the set and its runners; Now is when they were read.
	Warnings []corev1.Event
	Now      time.Time
	// Credentials is why the Secret can't be used, nil where it can, or was not read.
	Credentials error
}

// atOnce is how many requests to the API server are under way at most. One takes some ten milliseconds from a laptop: fifty
// scale sets are looked at in a second, and nobody else's requests wait for these.
const atOnce = 10

// gathering is a snapshot that is being taken, by several goroutines.
type gathering struct {
	*Snapshot
	cluster Cluster
	unread  sync.Mutex
}

// Gather reads a snapshot of the scale sets in a namespace ("" is all) with a name ("" is any). It fails only where
// scale sets themselves can't be read for another reason than that they are not installed, or in time.
func Gather(ctx context.Context, cluster Cluster, namespace, name string) (*Snapshot, error) {
	g := gathering{cluster: cluster, Snapshot: &Snapshot{Namespace: namespace, Name: name, Unread: map[string]error{}}}
	deployments := &appsv1.DeploymentList{}
	g.read(ctx, deployments, "Deployments", client.MatchingLabels{v1alpha1.LabelPartOf: partOfController})
	g.Managers = deployments.Items
	sets := &v1alpha1.AutoscalingRunnerSetList{}
	err := g.list(ctx, sets, client.InNamespace(namespace))
	if len(sets.Items) == 0 { // so do others than API servers answer
		if foreign := cluster.foreign(ctx); foreign != nil {
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
	if err := g.gatherSets(ctx); err != nil {
		return nil, fmt.Errorf("look at %d scale sets: %w; use -n NAMESPACE or a scale set's name to look at fewer", len(g.Sets), err)
	}
	return g.Snapshot, nil
}

// gatherElsewhere notes the scale sets of other namespaces where the one that was asked for has none that was asked for, if the
// caller may see them.
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

// choose keeps the sets that were asked for, and the names of the others.
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

// gatherSets reads what belongs to the sets: what is of a namespace once for all its sets.
func (g *gathering) gatherSets(ctx context.Context) error {
	if len(g.Sets) == 0 {
		return nil
	}
	g.listeners(ctx)
	namespaces := map[string][]*Set{}
	every := make([]*Set, len(g.Sets))
	for i := range g.Sets {
		every[i] = &g.Sets[i]
		namespaces[every[i].Namespace] = append(namespaces[every[i].Namespace], every[i])
	}
	err := kube.ForEach(ctx, atOnce, slices.Sorted(maps.Keys(namespaces)), func(ctx context.Context, namespace string) error {
		g.gatherNamespace(ctx, namespace, namespaces[namespace])
		return nil
	})
	return errors.Join(err, kube.ForEach(ctx, atOnce, every, func(ctx context.Context, set *Set) error {
		set.Credentials = g.credentials(ctx, &set.AutoscalingRunnerSet)
		set.deny(g.deniedListener(ctx, set))
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

// gatherNamespace reads what the sets of one namespace have there.
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
	warnings, manager := g.warnings(ctx, namespace), g.deniedManager(ctx, namespace)
	slices.SortStableFunc(runnerSets.Items, func(a, b v1alpha1.EphemeralRunnerSet) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	for _, set := range sets {
		set.RunnerSets = ofSet(set.Name, runnerSets.Items, func(r *v1alpha1.EphemeralRunnerSet) client.Object { return r })
		set.Runners = ofSet(set.Name, runners.Items, func(r *v1alpha1.EphemeralRunner) client.Object { return r })
		set.Pods = ofSet(set.Name, pods.Items, func(p *corev1.Pod) client.Object { return p })
		set.Quotas = quotas.Items
		set.Warnings = set.concerned(warnings)
		set.deny(manager)
	}
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

// listeners gives each set its listener, which lives in its manager's namespace.
func (g *gathering) listeners(ctx context.Context) {
	list := &v1alpha1.AutoscalingListenerList{}
	g.read(ctx, list, "AutoscalingListeners")
	bySet := map[types.NamespacedName]*v1alpha1.AutoscalingListener{}
	for i := range list.Items {
		listener := &list.Items[i]
		if listener.DeletionTimestamp == nil {
			bySet[kube.ScaleSetOf(listener)] = listener
		}
	}
	for i := range g.Sets {
		g.Sets[i].Listener = bySet[client.ObjectKeyFromObject(&g.Sets[i])]
	}
}

// credentials returns what is wrong with the set's Secret. A vault is not asked: that would need credentials of ours.
func (g *gathering) credentials(ctx context.Context, set *v1alpha1.AutoscalingRunnerSet) error {
	if set.Spec.VaultConfig != nil {
		return nil
	}
	_, err := credentials.New(g.cluster, credentials.Options{}).Resolve(ctx, credentials.ForAutoscalingRunnerSet(set))
	var status apierrors.APIStatus
	switch {
	case credentials.IsUserError(err):
		return err
	case errors.As(err, &status):
		g.note("Secrets", err)
	}
	return nil
}

// read lists what there is, and notes where it may not.
func (g *gathering) read(ctx context.Context, list client.ObjectList, what string, options ...client.ListOption) {
	if err := g.list(ctx, list, options...); !apierrors.IsNotFound(err) { // a kind that is not installed
		g.note(what, err)
	}
}

// list lists what can be decoded, and notes the rest.
func (g *gathering) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	unreadable, err := informer.ListReadable(ctx, g.cluster, ourKinds(), list, options...)
	g.unread.Lock()
	defer g.unread.Unlock()
	g.Unreadable = append(g.Unreadable, unreadable...)
	return err
}

// ourKinds are those whose objects may be other than Go wants them; the API server decodes its own into the same types.
var ourKinds = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme)) // no input makes it fail
	return scheme
})

// note keeps why a kind was not read, where there was an error.
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

// runnerSet returns the EphemeralRunnerSet in use, nil where there is none.
func (s *Set) runnerSet() *v1alpha1.EphemeralRunnerSet {
	if len(s.RunnerSets) == 0 {
		return nil
	}
	return &s.RunnerSets[0]
}
