package manager

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/bystanders"
	"github.com/harrier-ci/harrier/internal/controller/watchednamespace"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
)

// cacheOptions returns what the cache holds: only objects of scale sets, without managedFields, which make up half of a
// small object. Pods keep the entries of server-side apply.
func (o Options) cacheOptions() cache.Options {
	ours := cache.ByObject{Label: scaleSetSelector()}
	options := cache.Options{
		SyncPeriod:       &o.SyncPeriod,
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer:      newInformer,
		// Our own kinds are cached whole: an AutoscalingRunnerSet is written by users and needs no label.
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.AutoscalingListener{}: o.listeners(),
			&corev1.Pod{}:                   o.pods(),
			&corev1.PersistentVolumeClaim{}: o.claims(),
			&coordinationv1.Lease{}:         o.holders(),
			&corev1.ServiceAccount{}:        ours,
			&rbacv1.Role{}:                  ours,
			&rbacv1.RoleBinding{}:           ours,
		},
	}
	if watched := o.watched(); watched != nil {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range watched {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
		o.restrictToWatchedNamespace(options.ByObject)
	}
	return options
}

// watched returns the namespaces to watch, or nil for all. The manager's own is always among them: listeners are there.
func (o Options) watched() []string {
	switch o.WatchNamespace {
	case "":
		return nil
	case o.Namespace:
		return []string{o.Namespace}
	}
	return []string{o.WatchNamespace, o.Namespace}
}

// listeners selects the listeners to cache: those in the manager's own namespace. What a listener names is written with
// the manager's rights, so one that somebody else has written in another namespace never counts. A restricted manager
// leaves out those of managers that share its namespace and watch others.
func (o Options) listeners() cache.ByObject {
	own := cache.Config{}
	if o.WatchNamespace != "" {
		own.LabelSelector = o.watchedSetSelector()
	}
	return cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: own}}
}

// holders selects the Leases that say who holds a scale set on GitHub. A restricted manager sees those of others that
// share its namespace, too: what another manager's set holds is held.
func (o Options) holders() cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {LabelSelector: scaleSetSelector()}}}
}

// restrictToWatchedNamespace keeps the objects of other managers out of the cache. A restricted manager's own namespace
// may hold scale sets and runners of a manager that watches that one. Two managers that reconcile the same runner take
// its registration from each other.
func (o Options) restrictToWatchedNamespace(kinds map[client.Object]cache.ByObject) {
	watched := cache.ByObject{Namespaces: map[string]cache.Config{o.WatchNamespace: {}}}
	kinds[&v1alpha1.AutoscalingRunnerSet{}] = watched
	kinds[&v1alpha1.EphemeralRunnerSet{}] = watched
	kinds[&v1alpha1.EphemeralRunner{}] = watched
}

// pods selects the pods to cache. In the manager's own namespace these are listeners; runners there belong to another
// manager.
func (o Options) pods() cache.ByObject {
	pods := cache.ByObject{Label: scaleSetSelector(), Transform: stripPod}
	if o.WatchNamespace != "" && o.WatchNamespace != o.Namespace {
		pods.Namespaces = map[string]cache.Config{
			o.WatchNamespace: {},
			o.Namespace:      {LabelSelector: o.watchedSetSelector()},
		}
	}
	return pods
}

// watchedSetSelector selects objects of scale sets in the watched namespace, wherever the objects themselves are.
func (o Options) watchedSetSelector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{v1alpha1.LabelScaleSetNamespace: o.WatchNamespace})
}

// bindingCacheOptions returns the options of a second cache, for the manager's own RoleBinding in the watched
// namespace. That RoleBinding is not part of a scale set, and the manager's cache can select each kind by one set of
// labels only.
func (o Options) bindingCacheOptions() cache.Options {
	options := o.cacheOptions()
	options.DefaultNamespaces = map[string]cache.Config{o.WatchNamespace: {}}
	options.ByObject = map[client.Object]cache.ByObject{
		&rbacv1.RoleBinding{}: {Label: watchednamespace.Selector(o.Namespace)},
	}
	return options
}

// nodeCacheOptions returns the options of a cache of its own for Nodes, without which the manager is ready and works:
// it may lack the right to watch them.
func nodeCacheOptions(logger logr.Logger) cache.Options {
	return cache.Options{
		ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: nodes.Strip}},
		NewInformer: func(
			source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return newInformer(nodes.InPages(source), object, resync, indexers)
		},
		DefaultWatchErrorHandler: nodes.LogForbiddenOnce(logger),
	}
}

// stripPod drops what no controller reads in the pods of runners and their jobs: nearly all of the spec, which is most
// of their size. A runner's is built from its template and never compared with it later. A listener's pod keeps its
// spec. The managedFields of both keep only who applied something.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil // a tombstone
	}
	pod.ManagedFields = applied(pod.ManagedFields)
	if _, runner := pod.Labels[v1alpha1.LabelRunner]; runner || kube.IsJobPod(pod) {
		pod.Spec = corev1.PodSpec{
			NodeName:        pod.Spec.NodeName,
			SchedulingGates: pod.Spec.SchedulingGates,
			Volumes:         claimsAmong(pod.Spec.Volumes),
			InitContainers:  stripContainers(pod.Spec.InitContainers),
			Containers:      stripContainers(pod.Spec.Containers),
		}
	}
	return pod, nil
}

// claimsAmong keeps the volumes by which a pod mounts claims.
func claimsAmong(volumes []corev1.Volume) (claims []corev1.Volume) {
	for i := range volumes {
		if volumes[i].PersistentVolumeClaim != nil {
			claims = append(claims, volumes[i])
		}
	}
	return claims
}

// applied returns the entries of server-side apply, without their fields.
func applied(entries []metav1.ManagedFieldsEntry) (left []metav1.ManagedFieldsEntry) {
	for _, entry := range entries {
		if kube.IsApplied(entry) {
			left = append(left, metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation})
		}
	}
	return left
}

// stripContainers keeps images, which messages name, and the fields that decide whether a failed init container is
// restarted.
func stripContainers(containers []corev1.Container) []corev1.Container {
	stripped := make([]corev1.Container, 0, len(containers))
	for i := range containers {
		stripped = append(stripped, corev1.Container{
			Name: containers[i].Name, Image: containers[i].Image,
			RestartPolicy: containers[i].RestartPolicy, RestartPolicyRules: containers[i].RestartPolicyRules,
		})
	}
	return stripped
}

// newInformer returns an informer that resumes as soon as the API server is back. An object that can't be decoded
// doesn't stop it: the fields that can't be read keep the values that the informer has.
func newInformer(
	source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	var shared toolscache.SharedIndexInformer
	last := func(key string) (any, bool) {
		known, found, err := shared.GetStore().GetByKey(key)
		return known, found && err == nil
	}
	source = informer.Persistent(informer.Readable(source, object, last), clock.RealClock{})
	shared = toolscache.NewSharedIndexInformer(source, object, resync, indexers)
	return shared
}

// claims selects the claims of scale sets, in the watched namespace if there is one.
func (o Options) claims() cache.ByObject {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: v1alpha1.LabelScaleSetName, Operator: metav1.LabelSelectorOpExists},
			{Key: v1alpha1.LabelVolumeClaimTemplate, Operator: metav1.LabelSelectorOpExists},
		},
	})
	utilruntime.Must(err) // the requirements are constants
	claims := cache.ByObject{Label: selector}
	if o.WatchNamespace != "" {
		claims.Namespaces = map[string]cache.Config{o.WatchNamespace: {}}
	}
	return claims
}

// scaleSetSelector selects objects that have the scale set's label, whatever its value: everything we create has it.
func scaleSetSelector() labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: v1alpha1.LabelScaleSetName, Operator: metav1.LabelSelectorOpExists},
		},
	})
	utilruntime.Must(err) // the requirement is a constant
	return selector
}

// Requests with the same configuration share HTTP/2 connections. On each connection an API server serves 100 requests
// at a time, and writes responses and watch events one after another. A burst has two hundred writes in flight. Watches
// and the renewal of the leader's Lease must not wait for them, so each of the two has its own connection.

// withOwnConnection returns a copy of the configuration whose requests share no connection with others.
func withOwnConnection(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	// client-go caches connections by dialer, among other things. The durations are those of its own dialer.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	return config
}

// newCache returns a cache whose watches have their own connection.
func newCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	config = withOwnConnection(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the connection for watches: %w", err)
	}
	options.HTTPClient = client
	return cache.New(config, options)
}

// podsOf returns what lists and watches pods of a namespace, on a connection of its own.
func podsOf(config *rest.Config, scheme *runtime.Scheme) (bystanders.Source, error) {
	config = withOwnConnection(config)
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the connection for watches of pods: %w", err)
	}
	requests, err := apiutil.RESTClientForGVK(corev1.SchemeGroupVersion.WithKind("Pod"), false, false, config,
		serializer.NewCodecFactory(scheme), httpClient)
	if err != nil {
		return nil, fmt.Errorf("set up watches of pods: %w", err)
	}
	return func(namespace string, options func(*metav1.ListOptions)) toolscache.ListerWatcher {
		return toolscache.NewFilteredListWatchFromClient(requests, "pods", namespace, options)
	}, nil
}

// fillCaches requests informers for all kinds that controllers watch. A manager is ready only when they are filled, and
// a standby has them filled, too, so it can act as soon as it leads.
func fillCaches(ctx context.Context, informers cache.Cache) error {
	for _, kind := range []client.Object{
		&v1alpha1.AutoscalingRunnerSet{}, &v1alpha1.AutoscalingListener{},
		&v1alpha1.EphemeralRunnerSet{}, &v1alpha1.EphemeralRunner{},
		&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		&coordinationv1.Lease{},
	} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

// addNodes has the controller told about nodes.
func (d dependencies) addNodes(ctx context.Context, sets *ephemeralrunnerset.Controller) error {
	if !d.options.watchesNodes() {
		return nil
	}
	options := nodeCacheOptions(d.mgr.GetLogger().WithName("nodes"))
	options.Scheme, options.Mapper = d.mgr.GetScheme(), d.mgr.GetRESTMapper()
	watched, err := newCache(d.mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("set up the cache of nodes: %w", err)
	}
	if err := d.mgr.Add(watched); err != nil {
		return fmt.Errorf("add the cache of nodes: %w", err)
	}
	informer, err := watched.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	registration, err := informer.AddEventHandler(sets.NodeEvents())
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	sets.AwaitNodes(registration.HasSynced)
	return nil
}

// addWatchedNamespace makes a manager that is restricted to a namespace keep its permissions there until the last scale
// set is gone. If that is the manager's own namespace it does nothing: deleting that one deletes the manager too.
func (d dependencies) addWatchedNamespace(ctx context.Context) error {
	if d.options.WatchNamespace == "" || d.options.WatchNamespace == d.options.Namespace {
		return nil
	}
	options := d.options.bindingCacheOptions()
	options.Scheme, options.Mapper = d.mgr.GetScheme(), d.mgr.GetRESTMapper()
	bindings, err := newCache(d.mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("set up the cache of the manager's own RoleBinding: %w", err)
	}
	if err := d.mgr.Add(bindings); err != nil {
		return fmt.Errorf("add the cache of the manager's own RoleBinding: %w", err)
	}
	if _, err := bindings.GetInformer(ctx, &rbacv1.RoleBinding{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch the manager's own RoleBinding: %w", err)
	}
	err = watchednamespace.NewController(watchednamespace.Options{
		Client: d.client, Bindings: bindings, Clock: d.clock, Namespace: d.options.WatchNamespace,
	}).SetupWithManager(d.mgr)
	if err != nil {
		return fmt.Errorf("set up the controller of the watched namespace: %w", err)
	}
	return nil
}
