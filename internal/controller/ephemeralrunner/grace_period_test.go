package ephemeralrunner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
)

// dies deletes the pod as a drain does, with that much time to end; a finalizer stands for its kubelet.
func (f *fixture) dies(grace time.Duration) {
	f.Helper()
	f.hold("example.com/kubelet")
	if err := f.api.WithWatch.Delete(f.Context(), f.pod()); err != nil {
		f.Fatal(err)
	}
	// A real API server would answer this. The fake one sets no grace period, so its answers are amended.
	f.cache.Client = dyingPod{f.api, time.Now().Add(grace), grace}
	f.live.Reader = f.cache.Client
}

// A job whose pod was given an hour to end gets it, whatever our clock says.
func TestNoClockEndsAJobInItsGracePeriod(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, -5 * time.Minute, 0, 5 * time.Minute, 2 * time.Hour} {
		inBubble(t, func(f *fixture) {
			f.clock.PassiveClock = &askewClock{ahead: ahead}
			f.settle()
			f.setPod(runs)
			f.setStatus(hasReportedJob)
			f.github.remove = actions.ErrJobStillRunning
			f.settle()
			f.dies(10 * time.Minute)
			f.watch(10 * time.Minute)
			if status := f.runner().Status; status.Done() || f.pod() == nil {
				t.Errorf("clock %s ahead: status %+v, pod %v; want the job at work", ahead, status, f.pod() != nil)
			}
			f.watch(podstatus.StuckTimeout + rules.FailedGrace + 30*time.Second)
			if status := f.runner().Status; !status.Done() {
				t.Errorf("clock %s ahead: the node is lost, and the status %+v", ahead, status)
			}
		}, newRunner())
	}
}

// The status says what was planned: by a clock that is ahead, the pod would hang in its deletion and not be ready.
func TestNoClockMakesADyingPodUnready(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.clock.PassiveClock = &askewClock{ahead: 2 * time.Hour}
		f.settle()
		f.setPod(runs)
		f.dies(10 * time.Minute)
		f.settle()
		if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseRunning || !status.Ready {
			t.Errorf("status %+v, want it to run and be ready", status)
		}
	}, newRunner())
}

// What is remembered of a pod's deletion says nothing about another pod, of which a late cache may be believed.
func TestAnotherPodHasItsOwnGracePeriod(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().dies(time.Minute)
		f.settle()
		f.elapse(time.Hour)
		former := f.pod()
		f.hold()
		another := newPod(f.runner(), 101, "1.2.3")
		another.Status = former.Status
		another.UID, another.Finalizers = "another", former.Finalizers
		controllertest.Create(t, f.api.WithWatch, another)
		f.dies(time.Minute)
		f.api.sent()
		f.reconcile()
		if sent := f.api.sent(); strings.Contains(sent, "get status Pod") {
			t.Errorf("requests %s: it is taken to hang in its deletion, which has just begun", sent)
		}
	}, newRunner())
}

// When a runner is given up whose pod has ended and stays depends on its spec, on the pod's grace period, and on when
// the failure was recorded.
func TestTimeForAnEndedPodToGo(t *testing.T) {
	const long = time.Hour
	for title, test := range map[string]struct {
		timeout, grace time.Duration
		noted          time.Duration // after the first pass; its own time if it is 0
		want           time.Duration
	}{
		"deleted just now":              {timeout: long, grace: time.Minute, want: long},
		"longer grace period":           {timeout: time.Minute, grace: long, want: long + podstatus.StuckTimeout},
		"no timeout":                    {want: podstatus.StuckTimeout},
		"failure noted before":          {timeout: long, noted: -time.Minute, want: long - time.Minute},
		"failure noted long before":     {timeout: time.Minute, noted: -long, want: podstatus.StuckTimeout},
		"failure noted by a fast clock": {timeout: long, noted: 2 * long, want: long},
	} {
		t.Run(title, func(t *testing.T) {
			runner := newRunner(pendingFor(test.timeout))
			runner.Status.Failures = map[string]metav1.Time{"pod": metav1.NewTime(beginning.Add(test.noted))}
			pod := newPod(runner, 7, "1.2.3")
			evict(pod)
			pod.UID, pod.Finalizers = "pod", []string{keeper}
			inBubble(t, func(f *fixture) {
				f.dies(test.grace)
				f.settle()
				f.wantEndAfter(test.want)
			}, runner, pod)
		})
	}
}

// A failure that is recorded long after the pod's deletion has begun gives the pod its whole time again.
func TestTimeForAPodThatFailsLongAfterItsDeletion(t *testing.T) {
	const long = time.Hour
	inBubble(t, func(f *fixture) {
		f.started().dies(2 * long)
		f.settle()
		f.elapse(2 * long)
		f.setPod(exits(1))
		f.settle() // GitHub says that it had no job
		f.wantEndAfter(long)
	}, newRunner(pendingFor(long)))
}

// wantEndAfter fails unless the pod has that much time, and the runner ends without it then.
func (f *fixture) wantEndAfter(wait time.Duration) {
	f.Helper()
	f.elapse(wait - time.Second)
	f.settle()
	if status := f.runner().Status; status.Done() {
		f.Fatalf("status %+v before the pod had its time", status)
	}
	f.elapse(time.Second)
	f.settle()
	if status := f.runner().Status; status.Reason != v1alpha1.ReasonPodTerminating || !status.Done() {
		f.Errorf("status %+v after %s, want Failed for %s", status, wait, v1alpha1.ReasonPodTerminating)
	}
}

// dyingPod shows the pod with the end of its grace period.
type dyingPod struct {
	*recordingAPI
	due   time.Time
	grace time.Duration
}

func (d dyingPod) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	err := d.recordingAPI.Get(ctx, key, object, options...)
	d.amend(object)
	return err
}

func (d dyingPod) amend(object client.Object) {
	if pod, ok := object.(*corev1.Pod); ok && pod.DeletionTimestamp != nil {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(d.due)),
			new(int64(d.grace.Seconds()))
	}
}

func (d dyingPod) SubResource(name string) client.SubResourceClient {
	return dyingStatus{d.recordingAPI.SubResource(name), d}
}

type dyingStatus struct {
	client.SubResourceClient
	dyingPod
}

func (s dyingStatus) Get(
	ctx context.Context, object, into client.Object, options ...client.SubResourceGetOption,
) error {
	err := s.SubResourceClient.Get(ctx, object, into, options...)
	s.amend(into)
	return err
}
