package failpoints

import (
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/failpoints/apiserver"
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
	{name: "lost job", uninstalls: true, run: func(w *world) {
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
	{name: "check run about a wait", app: true, installs: true, run: func(w *world) {
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
	{name: "claims", uninstalls: true, run: cached(nil, func(*world) func() { return func() {} })},
	{name: "snapshots", uninstalls: true, run: cached(&v1alpha1.VolumeClaimPool{
		Mode: "Snapshot", SnapshotInterval: &metav1.Duration{Duration: time.Minute}, KeepSnapshots: new(1),
		CommitAfter: &v1alpha1.CommitClaimsAfter{
			Events: []string{"push"}, Results: []string{"succeeded"},
		},
	}, (*world).takeSnapshots)},
}

// cached has two jobs, and then two more, use claims that outlive them, or snapshots of these.
func cached(pool *v1alpha1.VolumeClaimPool, store func(*world) (check func())) func(*world) {
	return func(w *world) {
		check := store(w)
		set := w.set(2, func(set *v1alpha1.AutoscalingRunnerSet) {
			set.Spec.VolumeClaimPool = pool
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
		for range 2 {
			w.queue(2, time.Minute)
			if !w.done() {
				return
			}
			<-time.After(2 * time.Minute) // a snapshot is made
		}
		w.rest()
		check()
		w.uninstall(set)
	}
}

// takeSnapshots plays the storage and the snapshot controller: claims are bound after seconds, and so are snapshots ready
// whose claim is still there then. A claim that is made while there has been a snapshot for some time is a copy of one.
// In the end there has to have been one.
func (w *world) takeSnapshots() (check func()) {
	const known = 90 * time.Second // they are listed every minute
	var ready time.Time
	patches := map[string]string{
		"persistentvolumeclaims": `{"spec":{"volumeName":"volume"},"status":{"phase":"Bound"}}`,
		"volumesnapshots":        `{"status":{"readyToUse":true,"restoreSize":"1Gi"}}`,
	}
	w.server.Observe(func(c apiserver.Change) {
		patch := patches[c.Resource]
		switch {
		case c.Resource == "volumesnapshots" && ready.IsZero() && c.After != nil && c.After.Object["status"] != nil:
			ready = time.Now()
		case c.Resource == "persistentvolumeclaims" && c.Before == nil && !ready.IsZero() && time.Since(ready) > known:
			if _, copied, _ := unstructured.NestedMap(c.After.Object, "spec", "dataSource"); !copied {
				w.violate("claim %s is empty, %s after a snapshot was ready", c.After.GetName(), time.Since(ready))
			}
		}
		if patch != "" && c.Before == nil {
			time.AfterFunc(storageLatency, func() {
				source, found, _ := unstructured.NestedString(c.After.Object, "spec", "source", "persistentVolumeClaimName")
				if !found || w.has("persistentvolumeclaims", source) {
					w.server.Settle(c.Resource, c.After, []byte(patch))
				}
			})
		}
	})
	return func() {
		if ready.IsZero() {
			w.violate("no snapshot was ever ready")
		}
	}
}

func (w *world) has(resource, name string) bool {
	return slices.ContainsFunc(w.server.Objects()[resource], func(object *unstructured.Unstructured) bool {
		return object.GetName() == name
	})
}

// storageLatency is how long it takes to make a volume or a snapshot.
const storageLatency = 5 * time.Second

// lost has a job lose its pod to an eviction while it runs.
func lost(w *world, set *v1alpha1.AutoscalingRunnerSet) {
	if !w.install(set) {
		return
	}
	w.queue(1, 5*time.Minute)
	if !w.busy(1) {
		return
	}
	if !w.until("the job is reported", 5*time.Minute, func() bool { return w.reported(1) }) {
		return
	}
	for _, pod := range w.pods() {
		if pod.Spec.Containers[0].Name != v1alpha1.RunnerContainerName {
			continue // a job's
		}
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

// reported reports whether so many runners say which job they have.
func (w *world) reported(count int) bool {
	for _, runner := range w.server.Objects()["ephemeralrunners"] {
		if status, _ := runner.Object["status"].(map[string]any); status["workflowRunId"] != nil {
			count--
		}
	}
	return count == 0
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
