package failpoints

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// scenario is a piece of life of one installation.
type scenario struct {
	name   string
	github fakegithub.Options
	// before is what happens before there is a manager; nothing of it is an effect.
	before func(*world)
	// installs and uninstalls have the effects of install and uninstall tried. Others begin with a scale set that is like
	// that of a scenario which tries them, and end with one: what they would find was found there.
	installs, uninstalls bool
	// app has the scale set use a GitHub App instead of a token.
	app bool
	// managers is how many there are, one if it is zero.
	managers int
	// ledger has a ledger of jobs beside them.
	ledger bool
	// run is what users and jobs do. It returns early when something it waits for doesn't come, which is a violation.
	run func(*world)
}

// create makes objects as a user does. The user repeats what fails, so nothing does here.
func (w *world) create(objects ...client.Object) {
	for _, object := range objects {
		if err := w.user.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// set is the scale set of most scenarios.
func (w *world) set(maxRunners int, change ...func(*v1alpha1.AutoscalingRunnerSet)) *v1alpha1.AutoscalingRunnerSet {
	set := &v1alpha1.AutoscalingRunnerSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "builds"},
		Spec: v1alpha1.AutoscalingRunnerSetSpec{
			GitHubConfigUrl: gitHubURL + "/org", GitHubConfigSecret: "github", MaxRunners: &maxRunners,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "runner", Image: "runner:1", Command: []string{"/home/runner/run.sh"}}},
			}},
		},
	}
	for _, c := range change {
		c(set)
	}
	w.allow(maxRunners)
	return set
}

// secret has the credentials of the scale set.
func (w *world) secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: runners, Name: "github"}, Data: w.credentials}
}

// install installs a scale set as its chart does, and waits until a listener listens.
func (w *world) install(set *v1alpha1.AutoscalingRunnerSet) bool {
	w.create(w.secret(), set)
	return w.listens()
}

// listens waits until a listener listens. From then on effects are tried.
func (w *world) listens() bool {
	defer w.effects.try(true)
	return w.until("listening", 10*time.Minute, func() bool { return len(w.github.Snapshot().Sessions) == 1 })
}

// uninstall deletes what install has created, and waits until nothing is left.
func (w *world) uninstall(set *v1alpha1.AutoscalingRunnerSet) bool {
	w.effects.try(w.scenario.uninstalls)
	for _, object := range []client.Object{w.secret(), set} {
		if err := client.IgnoreNotFound(w.user.Delete(w.t.Context(), object)); err != nil {
			w.t.Fatal(err)
		}
	}
	if w.until("uninstalled", 20*time.Minute, w.nothingLeft) {
		return true
	}
	w.violate("left: %v", w.left())
	return false
}

// change changes the scale set as kubectl apply does.
func (w *world) change(change func(*v1alpha1.AutoscalingRunnerSet)) {
	set := &v1alpha1.AutoscalingRunnerSet{}
	if err := w.user.Get(w.t.Context(), client.ObjectKey{Namespace: runners, Name: "builds"}, set); err != nil {
		w.t.Fatal(err)
	}
	before := set.DeepCopy()
	change(set)
	if err := w.user.Patch(w.t.Context(), set, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// queue queues jobs that take so long.
func (w *world) queue(count int, takes time.Duration) { w.queueFor("builds", count, takes) }

// jobs counts those in a state.
func (w *world) jobs(in fakegithub.JobState) int { return len(w.github.Jobs(in)) }

// done waits until all jobs have ended.
func (w *world) done() bool { return w.until("all jobs done", 30*time.Minute, w.jobsDone) }

// busy waits until so many jobs run.
func (w *world) busy(count int) bool {
	return w.until(fmt.Sprintf("%d jobs running", count), 20*time.Minute, func() bool { return w.jobs("running") == count })
}

// idle waits until so many runners are online without a job.
func (w *world) idle(count int) bool {
	return w.until(fmt.Sprintf("%d runners idle", count), 20*time.Minute, func() bool {
		found := 0
		for _, runner := range w.github.Snapshot().Runners {
			if runner.Online && !runner.Busy {
				found++
			}
		}
		return found == count
	})
}

// pods returns the pods in the runners' namespace that run.
func (w *world) pods() []corev1.Pod { return w.podsIn(runners) }

// podsIn returns the pods that run in a namespace, or in all if it is empty.
func (w *world) podsIn(namespace string) (pods []corev1.Pod) {
	list := &corev1.PodList{}
	if err := w.user.List(w.t.Context(), list, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Status.Phase == corev1.PodRunning && list.Items[i].DeletionTimestamp == nil {
			pods = append(pods, list.Items[i])
		}
	}
	return pods
}
