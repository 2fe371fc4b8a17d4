package autoscalingrunnerset_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/testkube"
)

// world is a cluster in which this controller and that of listeners run, with the rights that the charts give the
// manager, and a fake GitHub. There is no kubelet: pods stay pending, and are gone as soon as they are deleted.
type world struct {
	*testing.T
	*gomega.WithT
	client  client.Client
	cluster *testkube.Cluster
	github  *fakegithub.Server
	clock   *skewedClock
	// address is the config URL, system the manager's namespace, runners the scale set's.
	address, system, runners string
}

// newWorld starts the controllers after it has prepared the cluster.
func newWorld(t *testing.T, prepare ...func(*world)) *world {
	t.Helper()
	cluster := testkube.Shared(t)
	w := &world{T: t, WithT: gomega.NewWithT(t), cluster: cluster, client: cluster.Client(),
		github: fakegithub.New(fakegithub.Options{}), clock: &skewedClock{}}
	w.SetDefaultEventuallyTimeout(3 * time.Minute) // what takes 10 s alone takes 30 s on a busy machine
	w.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	t.Cleanup(w.github.Close)
	base, err := w.github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address, w.system, w.runners = base+"/my-org", cluster.NewNamespace(t), cluster.NewNamespace(t)
	w.grant()
	for _, step := range prepare {
		step(w)
	}
	w.startControllers()
	return w
}

// skewedClock is the real clock plus what it was moved ahead.
type skewedClock struct {
	clock.RealClock
	ahead atomic.Int64 // nanoseconds
}

// Now returns the time with the skew.
func (c *skewedClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// Since returns the time that has passed according to Now.
func (c *skewedClock) Since(moment time.Time) time.Duration { return c.Now().Sub(moment) }

// startControllers runs both controllers as the manager's ServiceAccount.
func (w *world) startControllers() {
	w.Helper()
	ours, err := labels.NewRequirement(v1alpha1.LabelScaleSetName, selection.Exists, nil)
	if err != nil {
		w.Fatal(err)
	}
	only := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	unique := true
	manager, err := ctrl.NewManager(w.cluster.ConfigFor(w.T, testkube.ServiceAccount(w.system, "manager")),
		ctrl.Options{
			Scheme:  w.client.Scheme(),
			Metrics: server.Options{BindAddress: "0"},
			Cache: cache.Options{
				ByObject: map[client.Object]cache.ByObject{
					&corev1.Pod{}: only, &corev1.ServiceAccount{}: only, &rbacv1.Role{}: only, &rbacv1.RoleBinding{}: only,
					&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{w.system: {LabelSelector: only.Label}}},
				},
				DefaultTransform: cache.TransformStripManagedFields(),
			},
			Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{},
				&corev1.ConfigMap{}}}},
			Controller: config.Controller{SkipNameValidation: &unique},
		})
	if err != nil {
		w.Fatal(err)
	}
	provider := credentials.New(manager.GetAPIReader(), credentials.Options{})
	workers := pool.New(pool.Limit, clock.RealClock{})
	recorder := manager.GetEventRecorder("manager")
	sets := autoscalingrunnerset.NewController(autoscalingrunnerset.Options{
		Options: children.Options{
			Client: manager.GetClient(), Reader: manager.GetAPIReader(), Recorder: recorder, Namespace: w.system,
			ListenerImage: "controller:1",
		},
		Connections: scaleset.ConnectionsOf(provider), Pool: workers, Clock: w.clock, Version: "dev",
		StripForeignFinalizers: true,
		RunnerPod: func(set *v1alpha1.AutoscalingRunnerSet, runnerSet *v1alpha1.EphemeralRunnerSet) *corev1.Pod {
			return launch.SamplePod(ephemeralrunnerset.SampleRunner(set, runnerSet), "dev")
		},
	})
	listeners := autoscalinglistener.NewController(autoscalinglistener.Options{
		Client: manager.GetClient(), Reader: manager.GetAPIReader(), Credentials: provider, Recorder: recorder,
		Clock:     clock.RealClock{},
		Namespace: w.system, LogLevel: "info", LogFormat: "json",
	})
	for _, err := range []error{manager.Add(workers), sets.SetupWithManager(manager),
		listeners.SetupWithManager(manager)} {
		if err != nil {
			w.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			w.Errorf("manager: %v", err)
		}
	})
}

// rule grants verbs on resources of one API group.
func rule(group, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: group, Resources: resources, Verbs: verbs}
}

// grant creates the manager's ServiceAccount with the rights that the charts give: in all namespaces to what it watches
// and owns, in its own to the objects of listeners, and in the scale set's to those of runners.
func (w *world) grant() {
	w.Helper()
	ours, core, rbac := []string{v1alpha1.GroupVersion.Group}, []string{""}, []string{rbacv1.GroupName}
	watch, change := []string{"list", "watch"}, []string{"create", "delete", "get", "patch", "update"}
	everywhere := []rbacv1.PolicyRule{
		rule(ours, []string{"autoscalingrunnersets", "autoscalinglisteners", "ephemeralrunnersets", "ephemeralrunners"},
			append(change, watch...)),
		rule(ours, []string{"autoscalingrunnersets/finalizers", "autoscalinglisteners/finalizers",
			"ephemeralrunnersets/finalizers", "ephemeralrunners/finalizers"}, []string{"patch", "update"}),
		rule(ours, []string{"autoscalingrunnersets/status", "autoscalinglisteners/status", "ephemeralrunnersets/status",
			"ephemeralrunners/status"}, []string{"get", "patch", "update"}),
		rule(core, []string{"persistentvolumeclaims", "pods", "serviceaccounts"}, watch),
		rule(rbac, []string{"rolebindings"}, watch),
		rule(rbac, []string{"roles"}, append(watch, "patch")),
		rule([]string{"events.k8s.io"}, []string{"events"}, []string{"create", "patch"}),
	}
	inSystem := []rbacv1.PolicyRule{
		rule(core, []string{"pods"}, []string{"create", "delete", "get"}),
		rule(core, []string{"secrets", "serviceaccounts"}, change),
		rule([]string{coordinationv1.GroupName}, []string{"leases"}, []string{"create", "delete", "list", "update", "watch"}),
	}
	manager := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.system, Name: "manager"}}
	cluster := "manager-" + w.system
	w.create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: "manager"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: cluster}, Rules: everywhere},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: cluster},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cluster}, Subjects: manager},
	)
	w.grantIn(w.system, inSystem)
	w.grantIn(w.runners, ofScaleSets())
}

// ofScaleSets are the rights that the chart of a scale set gives the manager in its namespace.
func ofScaleSets() []rbacv1.PolicyRule {
	core, change := []string{""}, []string{"create", "delete", "get", "patch", "update"}
	return []rbacv1.PolicyRule{
		rule(core, []string{"pods"}, []string{"create", "delete", "get"}),
		rule(core, []string{"secrets", "serviceaccounts"}, append(change, "list")),
		rule([]string{rbacv1.GroupName}, []string{"rolebindings", "roles"}, change),
	}
}

// grantIn gives the manager rights in one namespace.
func (w *world) grantIn(namespace string, rules []rbacv1.PolicyRule) {
	w.Helper()
	manager := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.system, Name: "manager"}}
	w.create(
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "manager"}, Rules: rules},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "manager"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "manager"}, Subjects: manager},
	)
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		if err := w.client.Create(w.Context(), object); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) delete(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		if err := w.client.Delete(w.Context(), object); err != nil {
			w.Fatal(err)
		}
	}
}

// exists reads an object and reports whether it exists.
func (w *world) exists(object client.Object, namespace, name string) bool {
	w.Helper()
	err := w.client.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}

// listener returns the set's AutoscalingListener, nil while there is none.
func (w *world) listener() *v1alpha1.AutoscalingListener {
	w.Helper()
	var list v1alpha1.AutoscalingListenerList
	if err := w.client.List(w.Context(), &list, client.InNamespace(w.system)); err != nil {
		w.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}
