// Package jobpods holds pods of jobs, which container hooks create, as long as they can't run, each with the reason.
package jobpods

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

const (
	// A job's pod may be unable to run for jobWaitGrace; then the set's condition says so, as for runners.
	jobWaitGrace = 30 * time.Second
	// At most jobPodsPerRunner waiting pods are kept for one runner's job: the job has one pod and, one at a time, those
	// of its steps, but its workflow may create as many as the namespace allows.
	jobPodsPerRunner = 10
	// The name of a step's pod begins with at most stepRunnerLength characters of the runner's name.
	stepRunnerLength = 49
)

// Pods holds the pods of jobs that can't run, by runner. The watch's handler keeps it up to date, at a cost that
// depends on neither the set nor the namespace. Only pods with the labels that the chart gives them are watched.
type Pods struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	waiting map[types.NamespacedName]map[string]Wait
}

// Wait is a job's pod that can't run, and why.
type Wait struct {
	Pod, Reason, Message string
	// UnplacedSince is the time at which a pod without a node was created, zero if it has one.
	UnplacedSince time.Time
	since         time.Time // when it was first seen
}

// New returns Pods that hold nothing yet.
func New(clock clock.PassiveClock) *Pods {
	return &Pods{clock: clock, waiting: map[types.NamespacedName]map[string]Wait{}}
}

// put remembers a pod as it is now, or forgets it if it is gone. It returns the pod's runner, and whether the pod's
// wait has changed.
func (j *Pods) put(pod *corev1.Pod, gone bool) (runner types.NamespacedName, news bool) {
	runner = types.NamespacedName{Namespace: pod.Namespace, Name: kube.RunnerOfJobPod(pod)}
	now := Wait{Pod: pod.Name, since: j.clock.Now()}
	if !gone {
		now.Reason, now.Message = podstatus.WhyUnable(pod)
		if pod.Spec.NodeName == "" {
			now.UnplacedSince = pod.CreationTimestamp.Time
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	known, waited := j.waiting[runner][pod.Name]
	switch {
	case now.Reason == "" && waited:
		delete(j.waiting[runner], pod.Name)
		if len(j.waiting[runner]) == 0 {
			delete(j.waiting, runner)
		}
	case now.Reason == "", known.Reason == now.Reason && known.Message == now.Message &&
		known.UnplacedSince.Equal(now.UnplacedSince), !waited && len(j.waiting[runner]) >= jobPodsPerRunner:
		return runner, false
	default:
		if waited {
			now.since = known.since
		}
		if j.waiting[runner] == nil {
			j.waiting[runner] = map[string]Wait{}
		}
		j.waiting[runner][pod.Name] = now
	}
	return runner, true
}

// Events returns the handler for the watch of pods. changed is called with the runner of each pod whose wait has
// changed.
func (j *Pods) Events(changed func(q reconcile.Queue, runner types.NamespacedName)) handler.EventHandler {
	return reconcile.Seen(func(q reconcile.Queue, object client.Object, gone bool) {
		pod, ok := object.(*corev1.Pod)
		if !ok || !kube.IsJobPod(pod) {
			return
		}
		if runner, news := j.put(pod, gone); news {
			changed(q, runner)
		}
	})
}

// Of returns the waits of the runners' job pods that have lasted for jobWaitGrace, in the order of the pods' names, and
// the time at which the next wait will have lasted so long.
func (j *Pods) Of(namespace string, runners []*roster.Runner) (waits []Wait, due time.Time) {
	now := j.clock.Now()
	j.each(namespace, runners, func(_ *roster.Runner, wait Wait) {
		if reportAt := wait.since.Add(jobWaitGrace); reportAt.After(now) {
			due = kube.EarlierOf(due, reportAt)
		} else {
			waits = append(waits, wait)
		}
	})
	slices.SortFunc(waits, func(a, b Wait) int { return cmp.Compare(a.Pod, b.Pod) })
	return waits, due
}

// Unplaced returns, for each runner that has one, the job pod that has been without a node for longest.
func (j *Pods) Unplaced(namespace string, runners []*roster.Runner) map[types.UID]Wait {
	unplaced := map[types.UID]Wait{}
	j.each(namespace, runners, func(r *roster.Runner, wait Wait) {
		if first, known := unplaced[r.UID]; !wait.UnplacedSince.IsZero() &&
			(!known || wait.UnplacedSince.Before(first.UnplacedSince)) {
			unplaced[r.UID] = wait
		}
	})
	return unplaced
}

// each calls do with each wait of the runners' job pods.
func (j *Pods) each(namespace string, runners []*roster.Runner, do func(*roster.Runner, Wait)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) == 0 {
		return
	}
	for _, r := range runners {
		names := []string{r.Name}
		if len(r.Name) > stepRunnerLength {
			names = append(names, r.Name[:stepRunnerLength])
		}
		for _, name := range names {
			for _, wait := range j.waiting[types.NamespacedName{Namespace: namespace, Name: name}] {
				do(r, wait)
			}
		}
	}
}
