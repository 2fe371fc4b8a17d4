package ephemeralrunnerset_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset"
)

// whilePlacing has a test run with a set that announces what its cluster places, of maxRunners 100.
func whilePlacing(t *testing.T, test func(f *fixture), change ...func(*v1alpha1.AutoscalingRunnerSet)) {
	t.Helper()
	set := newSet(0)
	origin := controllertest.Origin(set)
	set.Spec.MaxRunners, origin.Spec.MaxRunners = new(100), new(100)
	origin.Spec.Capacity = &v1alpha1.CapacitySpec{Mode: v1alpha1.CapacityPlacement}
	for _, c := range change {
		c(origin)
	}
	inBubble(t, func(f *fixture) {
		f.ownOrigin = true
		test(f)
	}, set, origin)
}

// showPod has the watch show a pod as it is now.
func (f *fixture) showPod(pod *corev1.Pod) {
	update := event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}
	f.controller.PlacedPodEvents().Update(f.Context(), update, &controllertest.Queue{})
	f.controller.JobPodEvents().Update(f.Context(), update, &controllertest.Queue{})
}

// place has a runner's pod be seen, created with its runner, on a node or waiting for one.
func (f *fixture) place(node string, runners ...v1alpha1.EphemeralRunner) {
	for _, r := range runners {
		pod := podOn(node, &r)
		pod.CreationTimestamp = r.CreationTimestamp
		if node != "" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.Now()}}
		}
		f.showPod(pod)
	}
}

// wantRoom checks the number of jobs for which GitHub is told that there is room, and the reason.
func (f *fixture) wantRoom(capacity int, status metav1.ConditionStatus, reason string, words ...string) {
	f.Helper()
	set := f.set()
	if diff := cmp.Diff(&capacity, set.Status.Capacity); diff != "" {
		f.Errorf("capacity (-want +got):\n%s", diff)
	}
	limited := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionCapacityLimited)
	if limited == nil || limited.Status != status || limited.Reason != reason {
		f.Fatalf("%+v, want %s/%s", limited, status, reason)
	}
	for _, w := range words {
		if !strings.Contains(limited.Message, w) {
			f.Errorf("%q does not say %q", limited.Message, w)
		}
	}
}

// wait lets time pass with the passes that the controller asks for.
func (f *fixture) wait(d time.Duration) {
	f.Helper()
	for end := time.Now().Add(d); ; {
		next := f.reconcile().RequeueAfter
		left := time.Until(end)
		if left <= 0 {
			return
		}
		if next == 0 || next > left {
			next = left
		}
		controllertest.Elapse(next)
	}
}

func TestRoomFollowsWhatTheClusterPlaces(t *testing.T) {
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		f.wantRoom(10, metav1.ConditionTrue, v1alpha1.ReasonCapacityUnproven, "room for 10 jobs, of the 100",
			"0 runner pods on nodes, 0 waiting")
		f.publish(10)
		f.reconcile()
		runners := f.runners()
		f.place("n", runners[:4]...)
		f.place("", runners[4:]...)
		for _, r := range runners[4:] {
			r.Status.Reason, r.Status.Message = "Unschedulable", "0/1 nodes are available: too many pods"
			if err := f.api.Status().Update(f.Context(), &r); err != nil {
				f.Fatal(err)
			}
		}
		f.wait(61 * time.Second)
		f.wantRoom(10, metav1.ConditionTrue, v1alpha1.ReasonPodsUnschedulable,
			"4 runner pods on nodes, 6 waiting", "has held 4 at a time",
			"The oldest pod waits: 0/1 nodes are available")
		if f.event(v1alpha1.ReasonPodsUnschedulable) {
			t.Error("there is an Event though an autoscaler may be about to deliver")
		}
		f.wait(10 * time.Minute)
		if !f.event(v1alpha1.ReasonPodsUnschedulable) {
			t.Error("no Event says that nothing more is placed")
		}
		f.wantRoom(11, metav1.ConditionTrue, v1alpha1.ReasonPodsUnschedulable, "One more job is tried at")
		if saved := f.set().Status.Placement; saved == nil || saved.Mark != 4 || saved.Window != 1 {
			t.Errorf("the status says %+v", saved)
		}
		f.place("n", runners...)
		f.wait(10 * time.Second)
		if !f.event("PodsPlaced") {
			t.Error("no Event says that pods are placed again")
		}
		f.wantRoom(14, metav1.ConditionTrue, v1alpha1.ReasonCapacityUnproven, "10 runner pods on nodes, 0 waiting")
	})
}

// A new manager announces what the last one did, and one with a new runner set goes on from what is known of the
// cluster.
func TestRoomOutlivesManagerAndRunnerSet(t *testing.T) {
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		f.publish(8)
		f.reconcile()
		f.place("n", f.runners()...)
		f.wait(time.Minute)
		before := f.set().Status
		f.restart()
		f.place("n", f.runners()...)
		f.wait(10 * time.Second)
		after := f.set().Status
		if diff := cmp.Diff(before.Placement, after.Placement); diff != "" || *before.Capacity != *after.Capacity {
			t.Errorf("capacity %d, was %d; placement (-before +after):\n%s", *after.Capacity, *before.Capacity, diff)
		}
	})
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		f.wantRoom(30, metav1.ConditionTrue, v1alpha1.ReasonCapacityUnproven, "has held 60")
	}, func(origin *v1alpha1.AutoscalingRunnerSet) {
		origin.Status.Placement = &v1alpha1.PlacementStatus{Mark: 60, Window: 10, ReachedAt: metav1.Now()}
	})
}

// A set that is full or idle reaches its mark with each pass, and has nothing new to say.
func TestRoomOfAQuietSetIsSeldomWritten(t *testing.T) {
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		f.wait(time.Minute)
		written := f.requests["patch status *v1alpha1.EphemeralRunnerSet"]
		for range 3 * 60 {
			f.reconcile()
			controllertest.Elapse(time.Minute)
		}
		if more := f.requests["patch status *v1alpha1.EphemeralRunnerSet"] - written; more > 3 {
			t.Errorf("the status is written %d times in three hours, want 3 at most", more)
		}
	})
}

// Runners that get no pod because a quota or a refused claim stands in the way make no room.
func TestRoomWhilePodsAreRefused(t *testing.T) {
	for reason, words := range map[string]string{
		v1alpha1.ReasonQuotaExceeded:      "condition QuotaExceeded",
		v1alpha1.ReasonVolumeClaimRefused: "condition VolumeClaimsReady",
	} {
		whilePlacing(t, func(f *fixture) {
			f.reconcile()
			f.publish(10)
			f.reconcile()
			runners := f.runners()
			f.place("n", runners[:3]...)
			for _, r := range runners[3:] {
				r.Status.Reason = reason
				if err := f.api.Status().Update(f.Context(), &r); err != nil {
					f.Fatal(err)
				}
			}
			f.wait(30 * time.Second)
			f.wantRoom(4, metav1.ConditionTrue, reason, "3 runner pods on nodes", words)
			if !f.event(reason) {
				t.Errorf("no Event says that pods are refused: %s", reason)
			}
		})
	}
}

// Runners that are not created because there are no claims make no room either, until a claim is free.
func TestRoomWhileNoClaimIsFree(t *testing.T) {
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		f.publish(10)
		f.reconcile()
		f.provision()
		f.place("n", f.runners()...)
		f.wait(30 * time.Second)
		f.wantRoom(4, metav1.ConditionTrue, v1alpha1.ReasonVolumeClaimsExhausted, "3 runner pods on nodes",
			"condition VolumeClaimsReady")
		f.publish(3)
		f.wait(time.Minute)
		f.wantRoom(4, metav1.ConditionTrue, v1alpha1.ReasonCapacityUnproven)
	}, func(origin *v1alpha1.AutoscalingRunnerSet) {
		origin.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{
			{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"}}}
		origin.Spec.VolumeClaimPool = &v1alpha1.VolumeClaimPool{Max: new(3)}
	})
}

// Whose pod counts, and as what.
func TestWhichPodsCount(t *testing.T) {
	for name, test := range map[string]struct {
		change          func(*corev1.Pod)
		placed, waiting string
	}{
		"on a node": {func(*corev1.Pod) {}, "1", "0"},
		"waits":     {func(p *corev1.Pod) { p.Spec.NodeName = "" }, "0", "1"},
		"gated": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "a"}}
		}, "0", "1"},
		"ended":                        {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, "0", "0"},
		"is being deleted on its node": {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, "1", "0"},
		"is being deleted without one": {func(p *corev1.Pod) { p.DeletionTimestamp, p.Spec.NodeName = new(metav1.Now()), "" }, "0", "0"},
		"of another runner":            {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "another" }, "0", "0"},
		"nobody's":                     {func(p *corev1.Pod) { p.OwnerReferences = nil }, "0", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			whilePlacing(t, func(f *fixture) {
				f.reconcile()
				f.publish(1)
				f.reconcile()
				pod := podOn("n", &f.runners()[0])
				pod.CreationTimestamp = metav1.Now()
				test.change(pod)
				f.showPod(pod)
				controllertest.Elapse(time.Second)
				f.reconcile()
				message := meta.FindStatusCondition(f.set().Status.Conditions,
					v1alpha1.ConditionCapacityLimited).Message
				if !strings.Contains(message, ": "+test.placed+" runner pod") ||
					!strings.Contains(message, " on nodes, "+test.waiting+" waiting") {
					t.Errorf("%q, want %s on nodes and %s waiting", message, test.placed, test.waiting)
				}
			})
		})
	}
}

// In the kubernetes modes the job needs room, not the runner, which is small.
func TestARunnerWhoseJobsPodHasNoNodeWaits(t *testing.T) {
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		f.publish(1)
		f.reconcile()
		runner := f.runners()[0]
		f.place("n", runner)
		job := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: runner.Namespace, Name: runner.Name + "-workflow", CreationTimestamp: metav1.Now(),
			Labels: map[string]string{v1alpha1.LabelRunnerPod: runner.Name},
		}}
		job.Status.Phase = corev1.PodPending
		job.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: "no room"}}
		f.showPod(job)
		f.wait(61 * time.Second)
		f.wantRoom(1, metav1.ConditionTrue, v1alpha1.ReasonPodsUnschedulable, "0 runner pods on nodes, 1 waiting",
			"The oldest pod waits: no room")
		job.Spec.NodeName, job.Status.Conditions[0].Status = "n", corev1.ConditionTrue
		f.showPod(job)
		f.wait(10 * time.Second)
		f.wantRoom(11, metav1.ConditionTrue, v1alpha1.ReasonCapacityUnproven, "1 runner pod on nodes, 0 waiting")
	})
}

func TestRoomIsMaxRunnersInModeStaticAgain(t *testing.T) {
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		origin := &v1alpha1.AutoscalingRunnerSet{}
		if err := f.api.Get(f.Context(), setKey, origin); err != nil {
			t.Fatal(err)
		}
		origin.Spec.Capacity.Mode = v1alpha1.CapacityStatic
		if err := f.api.Update(f.Context(), origin); err != nil {
			t.Fatal(err)
		}
		controllertest.Elapse(time.Second)
		f.reconcile()
		status := f.set().Status
		limited := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCapacityLimited)
		if status.Capacity != nil || status.Placement != nil || limited == nil ||
			limited.Status != metav1.ConditionFalse {
			t.Errorf("%+v", status)
		}
	})
}

// The listener of a drained set has no session: there is no room, whatever the cluster has. The annotation changes no
// generation.
func TestADrainedSetHasNoRoom(t *testing.T) {
	whilePlacing(t, func(f *fixture) {
		f.reconcile()
		origin := &v1alpha1.AutoscalingRunnerSet{}
		if err := f.api.Get(f.Context(), setKey, origin); err != nil {
			t.Fatal(err)
		}
		drained := origin.DeepCopy()
		drained.Annotations = map[string]string{v1alpha1.AnnotationDrained: v1alpha1.DrainedValue}
		if err := f.api.Update(f.Context(), drained); err != nil {
			t.Fatal(err)
		}
		started := controllertest.Start(f, f.controller, f.api.Scheme())
		if started.Updated(origin, origin.DeepCopy()); !noneDue(started) {
			t.Error("an event without news brings a pass")
		}
		started.Updated(origin, drained)
		if set, due := started.Next(); !due || set != setKey {
			t.Error("the annotation brings no pass")
		}
		controllertest.Elapse(time.Second)
		f.reconcile()
		limited := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionCapacityLimited)
		if limited == nil || limited.Status != metav1.ConditionTrue || limited.Reason != v1alpha1.ReasonDrained {
			t.Errorf("%+v", limited)
		}
		if most := f.set().AdvertisedCapacity(true); *most != 0 {
			t.Errorf("GitHub is told of room for %d", *most)
		}
	})
}

// noneDue reports whether no pass is due.
func noneDue(started *controllertest.Started) bool {
	_, due := started.Next()
	return !due
}

// Only a set that announces what its cluster places needs a pass for each of its pods.
func TestPodsEnqueueTheirSetOnlyIfItsRoomFollowsThem(t *testing.T) {
	requests := func(f *fixture) int {
		f.publish(1)
		f.reconcile()
		f.reconcile()
		queue := &controllertest.Queue{}
		for _, node := range []string{"", "", "n", "n"} { // news the first and the third time
			pod := podOn(node, &f.runners()[0])
			pod.CreationTimestamp = metav1.NewTime(start)
			f.controller.PlacedPodEvents().Create(t.Context(), event.CreateEvent{Object: pod}, queue)
		}
		return len(queue.Requests)
	}
	whilePlacing(t, func(f *fixture) {
		if got := requests(f); got != 2 {
			t.Errorf("%d requests, want 2", got)
		}
	})
	inBubble(t, func(f *fixture) {
		if got := requests(f); got != 0 {
			t.Errorf("%d requests of a set whose room follows no pod", got)
		}
	}, newSet(0))
	ephemeralrunnerset.NewController(ephemeralrunnerset.Options{Clock: clock.RealClock{}}).PlacedPodEvents().
		Delete(t.Context(), event.DeleteEvent{Object: &corev1.Pod{}}, &controllertest.Queue{})
}

// Pods that wait for a node where there is none, because their volumes can be used nowhere else, say nothing about the
// cluster's room: those that are placed do.
func TestPodsThatAwaitTheirClaimsPlaceSayNothingAboutTheRoom(t *testing.T) {
	withTemplate := func(set *v1alpha1.AutoscalingRunnerSet) {
		set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{
			{Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"}}}
	}
	whilePlacing(t, func(f *fixture) {
		f.controller.AwaitNodes(func() bool { return true })
		f.controller.NodeEvents().OnAdd(nodeOf("n", "a"), true)
		f.reconcile()
		f.publish(10)
		f.reconcile()
		f.provision()
		runners := f.runners()
		f.place("n", runners[:4]...)
		f.place("", runners[4:]...)
		for i := range runners {
			if i < 4 {
				f.showClaimedPod(&runners[i], func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
				continue
			}
			f.bindTo(runners[i].Spec.VolumeClaims["cache"], corev1.LabelTopologyZone, "lost")
			f.showClaimedPod(&runners[i], func(pod *corev1.Pod) {
				unplaced(pod)
				pod.Status.NominatedNodeName = "n" // so that it goes on waiting
			})
		}
		f.wait(2 * time.Minute)
		limited := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionCapacityLimited)
		if limited == nil || !strings.Contains(limited.Message, "4 runner pods on nodes, 0 waiting") {
			t.Errorf("%+v", limited)
		}
		if room := f.set().Status.Capacity; room == nil || *room < 10 {
			t.Errorf("room for %v jobs, though no pod waits for room", room)
		}
	}, withTemplate)
}
