package autoscalinglistener_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalinglistener/listenerpod"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

func TestOldPodIsGoneBeforeTheNewOneStarts(t *testing.T) {
	f := started(t)
	f.holdPod()
	before := f.pod().Annotations[v1alpha1.AnnotationIntegrityHash]
	f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.Image = "controller:2" })
	f.settle()
	if pod := f.pod(); pod.DeletionTimestamp == nil || pod.Annotations[v1alpha1.AnnotationIntegrityHash] != before {
		t.Fatalf("the old pod is not on its way out: %+v", pod.ObjectMeta)
	}
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonReplacing)
	f.releasePod()
	f.settle()
	if pod := f.pod(); pod == nil || pod.Spec.Containers[0].Image != "controller:2" {
		t.Errorf("new pod: %+v", pod)
	}
}

// listenersOfOtherSets creates them, each of which works.
func (f *fixture) listenersOfOtherSets(number int) (names []types.NamespacedName) {
	f.Helper()
	for i := range number {
		set := newSet()
		set.Name, set.UID = fmt.Sprint("other-", i), types.UID(fmt.Sprint("other-set-", i))
		listener := newListener(func(l *v1alpha1.AutoscalingListener) {
			l.Name, l.UID = set.Name+"-listener", types.UID(fmt.Sprint("other-listener-", i))
			l.Labels[v1alpha1.LabelScaleSetName], l.Spec.AutoscalingRunnerSetName = set.Name, set.Name
		})
		f.create(set, listener)
		names = append(names, client.ObjectKeyFromObject(listener))
		f.settleOther(names[i])
		f.works(names[i])
	}
	return names
}

// settleOther is settle for another set's listener, and works makes its pod ready.
func (f *fixture) settleOther(name types.NamespacedName) {
	f.Helper()
	for range 4 {
		controllertest.Reconcile(f, f.controller, name)
	}
}

func (f *fixture) works(name types.NamespacedName) {
	f.Helper()
	f.podStatusOf(name, ready)
	f.settleOther(name)
}

// upgrade gives a listener another image, which replaces its pod, and returns the image that the pod has then.
func (f *fixture) upgrade(name types.NamespacedName, image string) string {
	f.Helper()
	listener := &v1alpha1.AutoscalingListener{}
	f.get(listener, name.Namespace, name.Name)
	listener.Spec.Image = image
	if err := f.client.Update(f.Context(), listener); err != nil {
		f.Fatal(err)
	}
	f.settleOther(name)
	pod := &corev1.Pod{}
	f.get(pod, name.Namespace, name.Name)
	return pod.Spec.Containers[0].Image
}

// A listener that works goes on until it is its turn to be replaced. One that doesn't work has nothing to lose.
func TestWorkingListenersAreReplacedInTurns(t *testing.T) {
	f := started(t)
	others := f.listenersOfOtherSets(5)
	for _, other := range others {
		if got := f.upgrade(other, "controller:2"); got != "controller:2" {
			t.Fatalf("%s has %s while there are turns", other, got)
		}
	}
	if got := f.upgrade(key, "controller:2"); got != "controller:1" {
		t.Errorf("the pod has %s while five others are being replaced", got)
	}
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
	if after := f.reconcile().RequeueAfter; after != 2*time.Second {
		t.Errorf("it asks again after %s, want 2 s", after)
	}
	f.works(others[0])
	f.settle()
	if got := f.pod().Spec.Containers[0].Image; got != "controller:2" {
		t.Errorf("the pod has %s though it is its turn", got)
	}
	if got := f.upgrade(others[0], "controller:3"); got != "controller:2" {
		t.Errorf("another has %s while five are being replaced", got)
	}
	f.podStatusOf(others[0], func(status *corev1.PodStatus) { status.Conditions = nil })
	f.settleOther(others[0])
	if got := f.upgrade(others[0], "controller:4"); got != "controller:4" {
		t.Errorf("a pod that doesn't work waits with %s", got)
	}
	for _, name := range others { // so that the metric has no series of them
		listener := &v1alpha1.AutoscalingListener{}
		f.get(listener, name.Namespace, name.Name)
		if err := f.client.Delete(t.Context(), listener); err != nil {
			t.Fatal(err)
		}
		f.settleOther(name)
	}
}

// The fake API server dates deletions by the real clock, from which the manager's is far away in either direction.
func TestPodThatDoesNotGoIsNotWaitedForBeyondItsTimeByTheManagersClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"behind": 0, "ahead": 200 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			f := started(t)
			f.elapse(ahead)
			f.holdPod()
			f.edit(func(l *v1alpha1.AutoscalingListener) { l.Spec.Image = "controller:2" })
			f.settle()
			f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionFalse, listenerpod.ReasonReplacing)
			f.elapse(listenerpod.LostTimeout - time.Second)
			if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != time.Second {
				t.Errorf("next look after %s", requeueAfter)
			}
			f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionFalse, listenerpod.ReasonReplacing)
			f.elapse(time.Second)
			f.reconcile()
			f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonPodTerminating)
			f.releasePod()
			f.settle()
			f.wantCondition(v1alpha1.ConditionStalled, metav1.ConditionFalse, listenerpod.ReasonStarting)
		})
	}
}

func TestPodOfAnEarlierListenerGoesFirst(t *testing.T) {
	f := newFixture(t)
	stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: managerNamespace, Name: "set-other-listener", Finalizers: []string{"example.com/node"},
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "set", v1alpha1.LabelScaleSetNamespace: setNamespace},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AutoscalingListener",
				Name: "set-other-listener", UID: "other", Controller: new(true)}},
	}}
	runner := stray.DeepCopy()
	runner.Name, runner.OwnerReferences[0].Kind = "set-runner-x", "EphemeralRunner"
	f.create(newSet(), newListener(), stray, runner)
	f.settle()
	if f.pod() != nil {
		t.Fatal("two listeners run at once")
	}
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, "WaitingForPredecessor")
	f.get(stray, managerNamespace, stray.Name)
	stray.Finalizers = nil
	if err := f.client.Update(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if f.pod() == nil {
		t.Error("the listener has not started")
	}
	f.get(runner, managerNamespace, runner.Name)
	if runner.DeletionTimestamp != nil {
		t.Error("a runner was taken for a listener")
	}
}

// fail makes the pod end. The UID distinguishes it from its predecessors, because the fake API server sets none.
func (f *fixture) fail(uid string) {
	f.Helper()
	pod := f.pod()
	pod.UID = types.UID(uid)
	if err := f.client.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	f.podStatus(func(status *corev1.PodStatus) {
		*status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on memory"}
	})
	f.settle()
}

func TestEvictedPodsSuccessorWaitsLongerEachTime(t *testing.T) {
	f := started(t)
	for i, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second,
		time.Minute, time.Minute} {
		f.fail(string(rune('a' + i)))
		if f.pod() != nil {
			t.Fatalf("failure %d: the next pod started at once", i+1)
		}
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, "BackOff")
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != pause {
			t.Errorf("failure %d: next look after %s, want %s", i+1, requeueAfter, pause)
		}
		f.elapse(pause)
		f.settle()
		if f.pod() == nil {
			t.Fatalf("failure %d: no pod after %s", i+1, pause)
		}
	}
	f.run()
	f.settle()
	f.fail("z")
	if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != successorFirstBackoff {
		t.Errorf("after a pod that ran, the next look is after %s, want %s", requeueAfter, successorFirstBackoff)
	}
}

// loseNode does what the node controller does when a node stops reporting.
func (f *fixture) loseNode() {
	f.Helper()
	f.podStatus(func(status *corev1.PodStatus) {
		status.Conditions[0].Status = corev1.ConditionFalse
		status.Conditions[0].LastTransitionTime = metav1.NewTime(f.clock.Now())
	})
}

func TestListenerLeavesALostNode(t *testing.T) {
	f := started(t)
	f.loseNode()
	if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != listenerpod.LostTimeout {
		t.Errorf("next look after %s, want %s", requeueAfter, listenerpod.LostTimeout)
	}
	f.elapse(listenerpod.LostTimeout)
	f.settle()
	if pod := f.pod(); pod == nil || pod.Status.Phase == corev1.PodRunning {
		t.Errorf("want a new pod, got %+v", pod)
	}
}

// The node is back, or the pod replaced, and the cache doesn't have that yet: no pod is deleted.
func TestListenerStaysWhereTheNodeIsBack(t *testing.T) {
	for title, meanwhile := range map[string]func(*fixture){
		"back": (*fixture).run,
		"gone": func(f *fixture) { f.replacePod() },
	} {
		t.Run(title, func(t *testing.T) {
			f := started(t)
			f.loseNode()
			f.shown = f.pod()
			meanwhile(f)
			kept := f.pod().UID
			f.elapse(listenerpod.LostTimeout)
			f.settle()
			if pod := f.pod(); pod == nil || pod.UID != kept {
				t.Errorf("the pod is %+v, want the one that was there", pod)
			}
		})
	}
}

// A pod of somebody else is left alone. One Event says what to do, and the name is tried with growing pauses.
func TestForeignPodOfTheSameNameIsSaid(t *testing.T) {
	f := newFixture(t)
	f.create(newSet(), newListener(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	f.settle()
	for i, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second,
		time.Minute, time.Minute} {
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPodNameTaken)
		if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != pause {
			t.Errorf("try %d: the next one after %s, want %s", i+1, requeueAfter, pause)
		}
		f.elapse(pause)
		f.reconcile()
	}
	if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonPodNameTaken); told != 1 {
		t.Errorf("it was told %d times", told)
	}
	if err := f.client.Delete(t.Context(), f.pod()); err != nil {
		t.Fatal(err)
	}
	f.elapse(successorLongestBackoff)
	f.settle()
	if pod := f.pod(); pod == nil || !metav1.IsControlledBy(pod, f.listener()) {
		t.Errorf("the listener has not started: %+v", pod)
	}
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonStarting)
}

// A pod that the cache has not seen yet is no cause.
func TestOwnPodThatIsNotSeenYetIsAwaited(t *testing.T) {
	f := started(t)
	f.behind = true
	if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != time.Second {
		t.Errorf("next look after %s", requeueAfter)
	}
	if told := controllertest.CountEvents(f.recorder, v1alpha1.ReasonPodNameTaken); told != 0 {
		t.Error("the listener's own pod was taken for somebody else's")
	}
}

// Without its labels the cache drops the pod, though it runs well. They are put back a single time.
func TestLabelsTakenOffThePodArePutBack(t *testing.T) {
	f := started(t)
	f.unlabel()
	f.reconcile()
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, listenerpod.ReasonReady)
	f.settle()
	if got := f.pod().Labels[v1alpha1.LabelScaleSetName]; got != "set" || f.podPatches != 1 {
		t.Errorf("label %q after %d patches", got, f.podPatches)
	}
}

// Where the manager may not patch pods, as with a Role of ARC's chart, a pod that the cache can't have is replaced.
func TestUnlabelledPodThatCannotBePatchedIsReplaced(t *testing.T) {
	f := started(t)
	f.podsForbidden = true
	f.unlabel()
	f.holdPod()
	if requeueAfter := f.reconcile().RequeueAfter; requeueAfter != successorFirstBackoff {
		t.Errorf("next look after %s", requeueAfter)
	}
	f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, listenerpod.ReasonReplacing)
	f.settle()
	if pod := f.pod(); pod.DeletionTimestamp == nil || f.podPatches != 1 {
		t.Errorf("deletion %v after %d patches", pod.DeletionTimestamp, f.podPatches)
	}
	f.releasePod()
	f.elapse(successorLongestBackoff)
	f.settle()
	if pod := f.pod(); pod == nil || pod.Labels[v1alpha1.LabelScaleSetName] != "set" {
		t.Errorf("the successor is %+v", pod)
	}
}

// unlabel takes the labels off the pod by which the cache selects it.
func (f *fixture) unlabel() {
	f.Helper()
	pod := f.pod()
	delete(pod.Labels, v1alpha1.LabelScaleSetName)
	if err := f.client.Update(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
}

// The pods of a former listener of its name failed; its own may start immediately.
func TestRecreatedListenerDoesNotWaitForTheFormersBackOff(t *testing.T) {
	f := started(t)
	f.fail("a")
	if f.pod() != nil {
		t.Fatal("the former listener's next pod started at once")
	}
	f.edit(func(listener *v1alpha1.AutoscalingListener) { listener.Finalizers = nil })
	if err := f.client.Delete(t.Context(), f.listener()); err != nil {
		t.Fatal(err)
	}
	f.create(newListener(func(listener *v1alpha1.AutoscalingListener) { listener.UID = "recreated-uid" }))
	f.settle()
	if f.pod() == nil {
		t.Errorf("the recreated listener has no pod: %+v", f.listener().Status.Conditions)
	}
}
