package failpoints

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
)

// troubles are the scenarios in which something goes wrong that isn't the product's.
var troubles = []scenario{
	{name: "pods that a node refuses", run: func(w *world) {
		var refused atomic.Int32
		w.node.OnStart(func(pod *corev1.Pod) fakenode.Fault {
			if pod.Namespace == runners && refused.Add(1) <= 2 {
				return fakenode.Fault{Reject: "OutOfcpu"}
			}
			return fakenode.Fault{}
		})
		burst(w)
	}},
	{name: "lost job", run: func(w *world) {
		w.results, w.allowed = []string{"failed"}, []fakegithub.AnomalyKind{"RunnerLostBusy"}
		lost(w, w.set(2))
	}},
	{name: "lost job runs again", run: func(w *world) {
		w.results, w.allowed = []string{"failed"}, []fakegithub.AnomalyKind{"RunnerLostBusy"}
		w.attempts = 2
		lost(w, w.set(2, func(set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.Feedback = &v1alpha1.Feedback{RerunLostJobs: &v1alpha1.RerunLostJobs{
				MaxAttempts: 1, IfNewerRun: "GiveUp", Causes: []v1alpha1.LostCause{"Evicted"},
			}}
		}))
	}},
	{name: "check run about a wait", app: true, run: func(w *world) {
		set := w.set(1, func(set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.Feedback = &v1alpha1.Feedback{
				Checks: true, CheckAfter: &metav1.Duration{Duration: time.Minute},
			}
		})
		if !w.install(set) {
			return
		}
		w.queue(2, 4*time.Minute)
		if !w.done() {
			return
		}
		w.rest()
		if checks := len(w.github.CheckRuns()); checks != 1 {
			w.violate("%d check runs about one wait", checks)
		}
		w.uninstall(set)
	}},
	{name: "claims", run: func(w *world) {
		set := w.set(2, func(set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.VolumeClaimTemplates = []v1alpha1.VolumeClaimTemplate{{
				Metadata: v1alpha1.VolumeClaimTemplateMeta{Name: "cache"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					},
				},
			}}
			set.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.VolumeClaimRetentionPolicy{WhenDeleted: "Delete"}
		})
		if !w.install(set) {
			return
		}
		w.queue(2, time.Minute)
		if !w.done() {
			return
		}
		w.queue(2, time.Minute)
		if !w.done() {
			return
		}
		w.rest()
		w.uninstall(set)
	}},
}

// lost has a job lose its pod to an eviction while it runs.
func lost(w *world, set *v1alpha1.AutoscalingRunnerSet) {
	if !w.install(set) {
		return
	}
	w.queue(1, 5*time.Minute)
	if !w.busy(1) {
		return
	}
	if !w.until("the job is reported", 5*time.Minute, w.reported) {
		return
	}
	for _, pod := range w.pods() {
		if err := w.node.Evict(client.ObjectKeyFromObject(&pod), "The node was low on resource: memory."); err != nil {
			w.t.Fatal(err)
		}
	}
	if !w.done() {
		return
	}
	if w.attempts > 1 {
		again := func() bool { return len(w.github.Jobs("")) == w.attempts && w.jobsDone() }
		if !w.until("run again", 30*time.Minute, again) {
			return
		}
	}
	w.rest()
	w.told(1)
	w.uninstall(set)
}

// reported reports whether the one runner says which job it has.
func (w *world) reported() bool {
	found := w.server.Objects()["ephemeralrunners"]
	if len(found) != 1 {
		return false
	}
	status, _ := found[0].Object["status"].(map[string]any)
	return status["workflowRunId"] != nil
}

// told checks that the set counts so many lost jobs.
func (w *world) told(count int) {
	for _, set := range w.server.Objects()["autoscalingrunnersets"] {
		status, _ := set.Object["status"].(map[string]any)
		if lost, _ := status["lostJobs"].(int64); lost != int64(count) {
			w.violate("%d jobs are told to be lost, and %d were", lost, count)
		}
	}
}
