package ephemeralrunner_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// Nodes that report a phase and no containers, as simulated or virtual ones may do.

// Such a pod may also lack a node if nothing schedules it. That must not hide that it runs.
func TestBusyRunnerWithOnlyAPhaseKeepsItsPod(t *testing.T) {
	for title, place := range map[string]func(*fixture){"without a node": func(*fixture) {},
		"on a node": (*fixture).bind} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.settle()
				place(f)
				f.github.remove = actions.ErrJobStillRunning
				f.setPod(statusOf(corev1.PodRunning))
				f.watch(rules.DefaultPendingTimeout + time.Minute)
				if status := f.runner().Status; status.Phase != v1alpha1.EphemeralRunnerPhaseRunning ||
					status.RunnerID != 101 {
					t.Errorf("status %+v, want Running as runner 101", status)
				}
				f.wantCalls("jit") // as far as is known it is idle, and it is not replaced
				f.delete()
				f.watch(time.Hour)
				if f.pod() == nil {
					t.Fatal("the pod of a job is gone")
				}
				f.setPod(statusOf(corev1.PodSucceeded))
				f.github.remove = nil
				f.settle()
				f.wantGone()
			}, newRunner())
		})
	}
}
