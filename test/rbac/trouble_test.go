package rbac

import (
	"slices"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/testkube/fakenode"
	"github.com/harrier-ci/harrier/test/rig"
)

// Faults in a life. Every part returns when the manager has done everything about it, so that the requests don't depend
// on chance.

// failRunner kills a runner without a job: it is registered again.
func (l *life) failRunner() {
	l.Helper()
	var victim *corev1.Pod
	l.await("an idle runner", func() bool {
		for _, pod := range l.rig.RunnerPods() {
			if pod.Status.Phase == corev1.PodRunning && pod.Labels[v1alpha1.LabelScaleSetName] == trusting {
				victim = &pod
			}
		}
		return victim != nil
	})
	if err := l.rig.Node.Kill(client.ObjectKeyFromObject(victim), v1alpha1.RunnerContainerName); err != nil {
		l.Fatal(err)
	}
	l.awaitFailure(victim)
}

// rejectRunner has the node refuse one pod. It is made again with the same JIT config.
func (l *life) rejectRunner() {
	l.Helper()
	var rejected atomic.Pointer[corev1.Pod]
	l.rig.Node.OnStart(func(pod *corev1.Pod) fakenode.Fault {
		ours := pod.Labels[v1alpha1.LabelRunner] != "" && pod.Labels[v1alpha1.LabelScaleSetName] == hooked
		if ours && rejected.CompareAndSwap(nil, pod.DeepCopy()) {
			return fakenode.Fault{Reject: "OutOfcpu"}
		}
		return fakenode.Fault{}
	})
	jobs := l.rig.QueueJobsFor(hooked, 1, time.Second)
	l.await("a pod is rejected", func() bool { return rejected.Load() != nil })
	l.awaitFailure(rejected.Load())
	l.rig.WaitDone(jobs)
}

// awaitFailure waits until the pod's failure is noted and another pod is in its place.
func (l *life) awaitFailure(pod *corev1.Pod) {
	l.Helper()
	l.await("another pod "+pod.Name, func() bool {
		now := &corev1.Pod{}
		l.ledger.get(l.T, client.ObjectKeyFromObject(pod), now)
		return now.UID != "" && now.UID != pod.UID
	})
}

// takeRunnerNames has runners find objects of their names. The runner's own Secret is overwritten. A stranger's object
// is left, and another runner takes the place.
func (l *life) takeRunnerNames() {
	l.Helper()
	l.takeName(func(runner *v1alpha1.EphemeralRunner) client.Object {
		meta := l.named(runner.Name)
		meta.OwnerReferences = kube.OwnedBy(runner)
		l.create(&corev1.Secret{ObjectMeta: meta})
		return foreignPod(l.named(runner.Name))
	})
	l.takeName(func(runner *v1alpha1.EphemeralRunner) client.Object {
		return &corev1.Secret{ObjectMeta: l.named(runner.Name), Data: map[string][]byte{"theirs": {1}}}
	})
}

// takeName creates an object of a runner's name while GitHub registers the runner.
func (l *life) takeName(namesake func(*v1alpha1.EphemeralRunner) client.Object) {
	l.Helper()
	registered := l.disturb(fakegithub.Fault{Endpoint: "generate-jit-config", Hang: true})
	known := l.runners()
	jobs := l.rig.QueueJobsFor(rig.DefaultSet, 1, time.Second)
	var runner *v1alpha1.EphemeralRunner
	l.await("a runner that is being registered", func() bool {
		for uid, found := range l.runners() {
			if known[uid] == nil {
				runner = found
			}
		}
		return runner != nil
	})
	object := namesake(runner)
	l.create(object)
	uid := object.GetUID()
	registered()
	l.rig.WaitDone(jobs)
	l.await("runner "+runner.Name+" gives way", func() bool { return l.gone(runner) })
	if l.gone(object) || object.GetUID() != uid || object.GetDeletionTimestamp() != nil {
		l.Errorf("%T %s of somebody else is gone", object, object.GetName())
	}
}

// runners returns the runners of the default set.
func (l *life) runners() map[types.UID]*v1alpha1.EphemeralRunner {
	l.Helper()
	var list v1alpha1.EphemeralRunnerList
	l.ledger.list(l.T, &list, client.InNamespace(l.rig.RunnerNamespace),
		client.MatchingLabels{v1alpha1.LabelScaleSetName: rig.DefaultSet})
	found := map[types.UID]*v1alpha1.EphemeralRunner{}
	for i := range list.Items {
		found[list.Items[i].UID] = &list.Items[i]
	}
	return found
}

// awaitSeries waits until an Event about the object is a series: two with the same reason while the object doesn't
// change are recorded as one, and the second is a patch. They are written after the change that they report. A manager
// that is killed before that writes neither. A patch that comes before its Event is repeated after 12 s.
func (l *life) awaitSeries(about client.Object) {
	l.Helper()
	l.await("a series of Events about "+about.GetName(), func() bool {
		var events eventsv1.EventList
		l.ledger.list(l.T, &events, client.InNamespace(about.GetNamespace()))
		return slices.ContainsFunc(events.Items,
			func(e eventsv1.Event) bool { return e.Regarding.UID == about.GetUID() && e.Series != nil })
	})
}

func foreignPod(meta metav1.ObjectMeta) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: meta,
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "foreign", Image: "foreign"}}},
	}
}

func (l *life) gone(object client.Object) bool {
	err := l.rig.Cluster.Client().Get(l.Context(), client.ObjectKeyFromObject(object), object)
	return client.IgnoreNotFound(err) == nil && err != nil
}

// leaveJobPods plays the container hooks of a killed runner: a job's pod and Secret stay, and a step's Job.
func (l *life) leaveJobPods() {
	l.Helper()
	// The job runs until the objects exist: when its runner goes, its job's pods are looked for.
	jobs := l.rig.QueueJobsFor(hooked, 1, rig.Held)
	var runner string
	l.await("a runner of "+hooked+" has the job", func() bool {
		for _, job := range l.rig.GitHub.Jobs("running") {
			if job.RequestID == jobs[0] {
				runner = job.Runner
			}
		}
		return runner != ""
	})
	own := &corev1.Pod{}
	err := l.rig.Cluster.Client().Get(l.Context(), client.ObjectKey{Namespace: l.rig.RunnerNamespace, Name: runner}, own)
	if err != nil || own.Annotations[v1alpha1.AnnotationHookTemplate] == "" {
		l.Errorf("the runner has no template of job pods: %v, %v", own.Annotations, err)
	}
	meta := l.named(runner + "-workflow")
	meta.Labels = map[string]string{v1alpha1.LabelRunnerPod: runner}
	pod, secret, step := foreignPod(meta), &corev1.Secret{ObjectMeta: meta}, &batchv1.Job{ObjectMeta: meta}
	step.Spec.Template.Spec = foreignPod(meta).Spec
	step.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	l.create(pod, secret, step)
	l.rig.EndJobs(jobs)
	l.await("job pods are cleaned up", func() bool { return l.gone(pod) && l.gone(secret) && l.gone(step) })
}
