package ephemeralrunner

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
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
