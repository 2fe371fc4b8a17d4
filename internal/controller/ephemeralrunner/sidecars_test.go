package ephemeralrunner_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// withShipper gives the pod an hour to end, and a container that runs on.
func withShipper(r *v1alpha1.EphemeralRunner) {
	r.Spec.PodSpec.TerminationGracePeriodSeconds = new(int64(3600))
	r.Spec.PodSpec.Containers = append(r.Spec.PodSpec.Containers, corev1.Container{Name: "shipper", Image: "shipper:1"})
}

// leavesShipper is a pod whose runner exits with 0 while its other container runs on.
func leavesShipper(p *corev1.Pod) {
	exits(0)(p)
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "shipper", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
}

// The pod's hour is the runner's: once that has ended, the others get their own few seconds.
func TestSidecarsGetLittleTimeAfterTheRunner(t *testing.T) {
	for title, test := range map[string]struct {
		given time.Duration
		want  int64
	}{"unset": {0, 20}, "more": {5 * time.Minute, 300}, "part of a second": {1500 * time.Millisecond, 1}} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.started().setStatus(hasReportedJob)
				f.hold("example.com/kubelet")
				f.setPod(leavesShipper)
				f.settle()
				if f.api.grace == nil || *f.api.grace != test.want {
					t.Errorf("deleted with grace period %v, want %d", f.api.grace, test.want)
				}
			}, newRunner(withShipper, func(r *v1alpha1.EphemeralRunner) {
				if test.given != 0 {
					r.Spec.SidecarGracePeriod = &metav1.Duration{Duration: test.given}
				}
			}))
		})
	}
}

// A drain gives the pod its hour, which the job uses. What then lives on gets the rest of no hour, and the pod does not
// count as one whose node is lost because of its new deadline, which has passed when it is set.
func TestADeletionByOthersIsCutShortAfterTheRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().setStatus(hasReportedJob)
		f.dies(time.Hour)
		f.settle()
		f.elapse(10 * time.Minute)
		f.settle()
		f.api.sent()
		f.setPod(leavesShipper)
		f.settle()
		if f.api.grace == nil || *f.api.grace != 20 {
			t.Fatalf("deleted with grace period %v, want 20", f.api.grace)
		}
		if sent := f.api.sent(); strings.Count(sent, "delete Pod") != 1 {
			t.Errorf("requests %s, want one deletion of the pod", sent)
		}
		// The API server counts the shorter period from the first deletion.
		f.cache.Client = dyingPod{f.api, time.Now().Add(20*time.Second - 10*time.Minute), 20 * time.Second}
		f.live.Reader = f.cache.Client
		f.settle()
		f.elapse(40 * time.Second)
		f.settle()
		if sent := f.api.sent(); strings.Contains(sent, "delete Pod") {
			t.Errorf("requests %s: the node still has time", sent)
		}
		f.elapse(20 * time.Second)
		f.delete()
		f.settle()
		if sent := f.api.sent(); !strings.Contains(sent, "delete Pod") || *f.api.grace != 0 {
			t.Errorf("requests %s with grace period %d, want the pod of a lost node to be removed", sent, *f.api.grace)
		}
	}, newRunner(withShipper))
}

// A pod whose own time is shorter keeps it.
func TestAShortGracePeriodStays(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().setStatus(hasReportedJob)
		f.hold("example.com/kubelet")
		f.setPod(leavesShipper)
		f.settle()
		if f.api.grace != nil {
			t.Errorf("deleted with grace period %d, want the pod's own", *f.api.grace)
		}
	}, newRunner(withShipper, func(r *v1alpha1.EphemeralRunner) {
		r.Spec.PodSpec.TerminationGracePeriodSeconds = new(int64(5))
	}))
}
