package autoscalingrunnerset_test

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/children"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

const (
	managerNamespace = "arc-systems"
	setNamespace     = "arc-runners"
	address          = "https://github.com/my-org"
	managerVersion   = "1.2.3"
)

// What the design promises: the longest waits until something is looked at, or written, again.
const (
	// statusInterval is that of counts in the status.
	statusInterval = 2 * time.Second
	// checkInterval is that of a scale set on GitHub that nothing is wrong with, give or take a tenth; recheckInterval,
	// of one that the listener misses; contestedInterval, of one whose id another set has recorded, too.
	checkInterval     = 5 * time.Minute
	recheckInterval   = 5 * time.Second
	contestedInterval = 30 * time.Second
	// holderInterval is that of a scale set that another set holds.
	holderInterval = 10 * time.Second
	// takenRetryInterval is that of a listener's names that are taken.
	takenRetryInterval = time.Minute
	// scalingEventInterval is that of Events about the number of runners.
	scalingEventInterval = time.Minute
)

// Reasons of conditions that tests ask for often.
const (
	reasonReady              = "Ready"
	reasonRegistered         = "Registered"
	reasonRegistering        = "Registering"
	reasonAccepted           = "Accepted"
	reasonRead               = "Read"
	reasonLabelsAccepted     = "LabelsAccepted"
	reasonListenerStarting   = "ListenerStarting"
	reasonWaitingForScaleSet = "WaitingForScaleSet"
	reasonChecking           = "CheckingCredentials"
	reasonVersionForeign     = "VersionDiffers"
	reasonNoVersion          = "NoVersionLabel"
)

var setKey = types.NamespacedName{Namespace: setNamespace, Name: "set"}

// fixture is a controller in a synctest bubble: the clock is the bubble's, the pool runs, API server and GitHub are
// fakes.
type fixture struct {
	*testing.T
	client     client.WithWatch
	github     *fakeGitHub
	recorder   *events.FakeRecorder
	controller *autoscalingrunnerset.Controller
	workers    *pool.Pool
	// way leads to GitHub.
	way *relay
	// intercept is for rejecting requests, and change for other options; restart puts them into effect.
	intercept *interceptor.Funcs
	change    func(*autoscalingrunnerset.Options)
	// holds is set if listeners that are being deleted wait for the test.
	holds bool
}

// podOf returns a pod of a set's template, as far as tests need it.
func podOf(set *v1alpha1.AutoscalingRunnerSet, _ *v1alpha1.EphemeralRunnerSet) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name + "-runner-check", Labels: set.Spec.Template.Labels,
			Annotations: map[string]string{v1alpha1.AnnotationRunnerSpecHash: templateOf(set)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.RunnerContainerName}}},
	}
}

// templateOf stands for the hash of a set's template.
func templateOf(set *v1alpha1.AutoscalingRunnerSet) string { return kube.Hash(set.Spec.Template) }

// inBubble runs a test with a fixture.
func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		test(newFixture(t, workers))
	})
}

func newFixture(t *testing.T, workers *pool.Pool) *fixture {
	t.Helper()
	f := &fixture{T: t, github: newFakeGitHub(), recorder: events.NewFakeRecorder(100),
		workers: workers, intercept: &interceptor.Funcs{}}
	f.way = &relay{f.github}
	builder := controllertest.NewKubernetes().
		WithStatusSubresource(&v1alpha1.AutoscalingRunnerSet{}, &v1alpha1.AutoscalingListener{},
			&v1alpha1.EphemeralRunnerSet{}).
		WithIndex(&v1alpha1.AutoscalingRunnerSet{}, journal.IndexByAddress,
			journal.AddressKeysOf).WithIndex(&v1alpha1.EphemeralRunnerSet{}, children.IndexByOwner, children.OwnerUIDs)
	for name, index := range holders.Indexes {
		builder = builder.WithIndex(&coordinationv1.Lease{}, name, index)
	}
	f.client = controllertest.SelectByName(builder, &v1alpha1.AutoscalingListener{}).Build()
	controllertest.Create(t, f.client, budgetOf(setKey, nil))
	f.restart()
	return f
}

// restart replaces the controller by one that remembers nothing.
func (f *fixture) restart() {
	options := autoscalingrunnerset.Options{
		Options: children.Options{
			Client: interceptor.NewClient(f.client, *f.intercept), Reader: f.client, Recorder: f.recorder,
			Namespace: managerNamespace, ListenerImage: "controller:1", ListenerImagePullSecrets: []string{"pull"},
			ExcludedLabelPrefixes: []string{"internal.example/"},
		},
		Connections: f.way, Pool: f.workers, Clock: clock.RealClock{}, Version: managerVersion,
		StripForeignFinalizers: true, RunnerPod: podOf,
	}
	if f.change != nil {
		f.change(&options)
	}
	f.controller = autoscalingrunnerset.NewController(options)
}

// newSet returns an AutoscalingRunnerSet as the chart would create it.
func newSet(change ...func(*v1alpha1.AutoscalingRunnerSet)) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: setKey.Namespace, Name: setKey.Name, UID: "set-uid", Generation: 1,
			Labels: map[string]string{
				v1alpha1.LabelVersion: "1.2.0", v1alpha1.LabelScaleSetName: setKey.Name,
				v1alpha1.LabelScaleSetNamespace: setKey.Namespace, "team": "build",
				"internal.example/secret": "yes",
			},
		},
		Spec: v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: address, GitHubConfigSecret: "github"},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func (f *fixture) create(objects ...client.Object) {
	f.Helper()
	controllertest.Create(f, f.client, objects...)
}

// reconcile runs one pass and waits until GitHub has answered its calls.
func (f *fixture) reconcile() reconcile.Result {
	f.Helper()
	result := controllertest.Reconcile(f, f.controller, setKey)
	controllertest.Elapse(answered)
	f.finalizeListeners()
	return result
}

// finalizeListeners lets listeners go that are being deleted, as their own controller does, unless the test plays it
// itself (holdDependents).
func (f *fixture) finalizeListeners() {
	f.Helper()
	if f.holds {
		return
	}
	for _, listener := range f.listeners() {
		if listener.DeletionTimestamp == nil {
			continue
		}
		listener.Finalizers = slices.DeleteFunc(listener.Finalizers,
			func(name string) bool { return name == v1alpha1.FinalizerAutoscalingListener })
		if err := f.client.Update(f.Context(), &listener); err != nil {
			f.Fatal(err)
		}
	}
}

// leaving returns the scale sets that the set has left, and that are to be deleted.
func (f *fixture) leaving() []v1alpha1.ScaleSetRegistration {
	f.Helper()
	return journal.RecordsOf(f.set()).Leaving()
}

// settle runs enough passes for each to see the effects of those before it, more than a second apart, so that each may
// write the status.
func (f *fixture) settle() {
	f.Helper()
	for range 5 {
		f.reconcile()
		controllertest.Elapse(1100 * time.Millisecond)
	}
}

func (f *fixture) set() *v1alpha1.AutoscalingRunnerSet {
	f.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := f.client.Get(f.Context(), setKey, set); err != nil {
		f.Fatal(err)
	}
	return set
}

// gone reports whether the set is gone.
func (f *fixture) gone() bool {
	f.Helper()
	return !controllertest.Read(f, f.client, setKey, &v1alpha1.AutoscalingRunnerSet{})
}

// edit changes the set as a user would.
func (f *fixture) edit(change func(*v1alpha1.AutoscalingRunnerSet)) {
	f.Helper()
	set := f.set()
	change(set)
	set.Generation++
	if err := f.client.Update(f.Context(), set); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) runnerSets() []v1alpha1.EphemeralRunnerSet {
	f.Helper()
	var list v1alpha1.EphemeralRunnerSetList
	if err := f.client.List(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	return list.Items
}

func (f *fixture) listeners() []v1alpha1.AutoscalingListener {
	f.Helper()
	var list v1alpha1.AutoscalingListenerList
	if err := f.client.List(f.Context(), &list); err != nil {
		f.Fatal(err)
	}
	return list.Items
}

// listening sets the status that the other two controllers and the listener write when everything runs.
func (f *fixture) listening() {
	f.Helper()
	listener, runnerSet := f.listeners()[0], f.runnerSets()[0]
	meta.SetStatusCondition(&listener.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "PodReady"})
	since := metav1.Now()
	runnerSet.Status.Listener = &v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateListening, Since: &since}
	f.updateStatus(&listener, &runnerSet)
}

func (f *fixture) updateStatus(objects ...client.Object) {
	f.Helper()
	for _, object := range objects {
		if err := f.client.Status().Update(f.Context(), object); err != nil {
			f.Fatal(err)
		}
	}
}

// wantCondition fails unless the set has the condition with this status and reason.
func (f *fixture) wantCondition(conditionType string, status metav1.ConditionStatus, reason string) {
	f.Helper()
	controllertest.WantCondition(f, f.set().Status.Conditions, conditionType, status, reason)
}

// events returns the Events recorded since it was last called.
func (f *fixture) events() []string { return controllertest.Events(f.recorder) }

// labelled returns a scale set as GitHub has it.
func labelled(id int, name string, group int, names ...string) actions.RunnerScaleSet {
	set := actions.RunnerScaleSet{ID: id, Name: name, RunnerGroupID: group,
		RunnerSetting: actions.RunnerSetting{DisableUpdate: true}}
	for _, label := range names {
		set.Labels = append(set.Labels, actions.Label{Name: label})
	}
	return set
}
