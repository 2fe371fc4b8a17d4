package autoscalinglistener_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

const (
	managerNamespace = "arc-systems"
	setNamespace     = "arc-runners"
)

// What the design promises: the waits until something is looked at, or written, again.
const (
	recheckInterval         = 2 * time.Minute  // the content of Secrets
	refusedRecheckInterval  = 15 * time.Second // and of those that GitHub refuses
	takenRetryInterval      = time.Minute
	rephraseInterval        = 10 * time.Second
	announceGrace           = 2 * time.Second
	successorFirstBackoff   = 5 * time.Second
	successorLongestBackoff = time.Minute
)

var key = types.NamespacedName{Namespace: managerNamespace, Name: "set-listener"}

// fixture is a controller whose API server, credentials and clock are fakes.
type fixture struct {
	*testing.T
	client      client.WithWatch
	clock       *clocktesting.FakePassiveClock
	credentials *fakeCredentials
	recorder    *events.FakeRecorder
	controller  *autoscalinglistener.Controller
	options     autoscalinglistener.Options
	// secretReads counts reads of Secrets.
	secretReads int
	// behind hides pods from lists, as a cache does that is behind.
	behind bool
	// shown is the only pod in lists if it is set.
	shown *corev1.Pod
	// podPatches counts patches of pods. podsForbidden is set to reject them.
	podPatches    int
	podsForbidden bool
	// applyFailures are the answers to server-side applies, by kind.
	applyFailures map[string]error
}

// fakeCredentials always resolves to resolved, or fails with err.
type fakeCredentials struct {
	resolved *credentials.Resolved
	err      error
	// next has the credentials that are resolved after Invalidate.
	next *credentials.Resolved
	// kept has the content of the listener's Secrets for a process that has not written them; nil means that there are
	// none.
	kept *credentials.Resolved
}

func (f *fakeCredentials) FromListener(_ context.Context, listener client.ObjectKey) (*credentials.Resolved, error) {
	if f.kept == nil {
		return nil, &credentials.MissingError{Kind: "Secret", Namespace: listener.Namespace,
			Name: listener.Name + credentials.ListenerConfigSuffix}
	}
	return f.kept, nil
}

func (f *fakeCredentials) Invalidate(credentials.Reference) {
	if f.next != nil {
		f.resolved = f.next
	}
}

func (f *fakeCredentials) Resolve(context.Context, credentials.Reference) (*credentials.Resolved, error) {
	return f.resolved, f.err
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		recorder: events.NewFakeRecorder(100),
		credentials: &fakeCredentials{resolved: &credentials.Resolved{
			Credentials: actions.Credentials{Token: "token-1"}}},
	}
	builder := controllertest.NewKubernetes().
		WithStatusSubresource(&v1alpha1.AutoscalingRunnerSet{},
			&v1alpha1.AutoscalingListener{}, &corev1.Pod{})
	f.client = controllertest.SelectByName(builder, &corev1.ServiceAccount{}, &rbacv1.Role{},
		&rbacv1.RoleBinding{}).Build()
	counting := interceptor.NewClient(f.client, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			f.secretReads++
			return c.Get(ctx, key, object, options...)
		},
	})
	cached := interceptor.NewClient(f.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			pods, ofPods := list.(*corev1.PodList)
			switch {
			case ofPods && f.shown != nil:
				pods.Items = []corev1.Pod{*f.shown}
				return nil
			case ofPods && f.behind:
				return nil
			default:
				return c.List(ctx, list, options...)
			}
		},
		SubResourceGet: func(
			ctx context.Context, c client.Client, _ string, object, into client.Object,
			_ ...client.SubResourceGetOption,
		) error {
			return c.Get(ctx, client.ObjectKeyFromObject(object), into)
		},
		Patch: f.patch,
		Apply: func(
			ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption,
		) error {
			if err := f.applyFailures[object.(interface{ GetKind() string }).GetKind()]; err != nil {
				return err
			}
			return c.Apply(ctx, object, options...)
		},
	})
	f.options = autoscalinglistener.Options{
		Client: cached, Reader: counting, Credentials: f.credentials, Recorder: f.recorder, Clock: f.clock,
		Namespace: managerNamespace,
		LogLevel:  "info", LogFormat: "json", MetricsAddr: ":8080", MetricsEndpoint: "/metrics",
	}
	f.restart()
	return f
}

// restart replaces the controller by one that remembers nothing.
func (f *fixture) restart() { f.controller = autoscalinglistener.NewController(f.options) }

// patch counts patches of pods and rejects them if podsForbidden is set.
func (f *fixture) patch(
	ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if _, pod := object.(*corev1.Pod); pod {
		f.podPatches++
		if f.podsForbidden {
			return apierrors.NewForbidden(corev1.Resource("pods"), object.GetName(), errors.New("no Role says so"))
		}
	}
	return c.Patch(ctx, object, patch, options...)
}

func newSet() *v1alpha1.AutoscalingRunnerSet {
	return &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: setNamespace, Name: "set", UID: "set-uid",
			Finalizers:  []string{v1alpha1.FinalizerAutoscalingRunnerSet},
			Annotations: map[string]string{v1alpha1.AnnotationRunnerScaleSetID: "7"},
		},
	}
}

func newListener(change ...func(*v1alpha1.AutoscalingListener)) *v1alpha1.AutoscalingListener {
	listener := &v1alpha1.AutoscalingListener{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: "listener-uid", Generation: 1,
			Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace,
				"team": "build"},
			Annotations: map[string]string{v1alpha1.AnnotationRunnerGroupName: "Default",
				v1alpha1.AnnotationIntegrityHash: "written"},
		},
		Spec: v1alpha1.AutoscalingListenerSpec{
			GitHubConfigUrl: "https://github.com/my-org", GitHubConfigSecret: "github", RunnerScaleSetID: 7,
			AutoscalingRunnerSetNamespace: setNamespace, AutoscalingRunnerSetName: "set", EphemeralRunnerSetName: "set",
			MaxRunners: 10, Image: "controller:1",
		},
	}
	for _, c := range change {
		c(listener)
	}
	return listener
}

// started returns a fixture whose listener pod runs.
func started(t *testing.T, change ...func(*v1alpha1.AutoscalingListener)) *fixture {
	t.Helper()
	f := newFixture(t)
	f.create(newSet(), newListener(change...))
	f.settle()
	f.run()
	f.settle()
	return f
}

func (f *fixture) create(objects ...client.Object) {
	f.Helper()
	controllertest.Create(f, f.client, objects...)
}

func (f *fixture) reconcile() reconcile.Result {
	f.Helper()
	return controllertest.Reconcile(f, f.controller, key)
}

// settle runs enough passes for each to see the effects of those before it.
func (f *fixture) settle() {
	f.Helper()
	for range 4 {
		f.reconcile()
	}
}

func (f *fixture) elapse(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// get reads an object and reports whether it exists.
func (f *fixture) get(object client.Object, namespace, name string) bool {
	f.Helper()
	return controllertest.Read(f, f.client, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

func (f *fixture) listener() *v1alpha1.AutoscalingListener {
	f.Helper()
	listener := &v1alpha1.AutoscalingListener{}
	if !f.get(listener, key.Namespace, key.Name) {
		f.Fatal("the AutoscalingListener is gone")
	}
	return listener
}

// pod returns the listener pod, nil when there is none.
func (f *fixture) pod() *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{}
	if !f.get(pod, key.Namespace, key.Name) {
		return nil
	}
	return pod
}

// edit changes the listener as the other controller would.
func (f *fixture) edit(change func(*v1alpha1.AutoscalingListener)) {
	f.Helper()
	listener := f.listener()
	change(listener)
	if err := f.client.Update(f.Context(), listener); err != nil {
		f.Fatal(err)
	}
}

// podStatus changes the pod's status as the kubelet or the node controller would.
func (f *fixture) podStatus(change func(*corev1.PodStatus)) {
	f.Helper()
	f.podStatusOf(key, change)
}

func (f *fixture) podStatusOf(listener types.NamespacedName, change func(*corev1.PodStatus)) {
	f.Helper()
	pod := &corev1.Pod{}
	if !f.get(pod, listener.Namespace, listener.Name) {
		f.Fatalf("listener %s has no pod", listener)
	}
	change(&pod.Status)
	if err := f.client.Status().Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// run makes the pod ready. Its UID is set because the fake API server gives none.
func (f *fixture) run() {
	f.Helper()
	f.podStatus(ready)
}

// ready makes a status that of a pod that is ready.
func ready(status *corev1.PodStatus) {
	status.Phase = corev1.PodRunning
	status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ListenerContainerName,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// replacePod replaces the pod by another with the same name.
func (f *fixture) replacePod() {
	f.Helper()
	pod := f.pod()
	if err := f.client.Delete(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	pod.ResourceVersion, pod.UID = "", "another"
	f.create(pod)
}

// holdPod gives the pod a finalizer, so that a deletion takes time as it does on a node.
func (f *fixture) holdPod() {
	f.Helper()
	pod := f.pod()
	pod.Finalizers = []string{"example.com/node"}
	if err := f.client.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) releasePod() {
	f.Helper()
	pod := f.pod()
	pod.Finalizers = nil
	if err := f.client.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) wantCondition(conditionType string, status metav1.ConditionStatus, reason string) {
	f.Helper()
	controllertest.WantCondition(f, f.listener().Status.Conditions, conditionType, status, reason)
}

// exists returns those of the listener's objects that exist.
func (f *fixture) exists() map[string]bool {
	f.Helper()
	return map[string]bool{
		"pod":            f.get(&corev1.Pod{}, key.Namespace, key.Name),
		"config":         f.get(&corev1.Secret{}, key.Namespace, key.Name+"-config"),
		"proxy":          f.get(&corev1.Secret{}, key.Namespace, key.Name+"-proxy"),
		"ServiceAccount": f.get(&corev1.ServiceAccount{}, key.Namespace, key.Name),
		"Role":           f.get(&rbacv1.Role{}, setNamespace, key.Name),
		"RoleBinding":    f.get(&rbacv1.RoleBinding{}, setNamespace, key.Name),
		"listener":       f.get(&v1alpha1.AutoscalingListener{}, key.Namespace, key.Name),
	}
}
