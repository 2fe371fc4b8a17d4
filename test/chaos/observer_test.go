package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// lookInterval is how often the world is looked at, and lookTimeout how long the API server may take to show it.
	lookInterval = 200 * time.Millisecond
	lookTimeout  = 2 * time.Second
	// replaceTime is how long a runner's place may be empty after its job: without faults GitHub alone takes 0.3 s to register
	// the next one, and a machine that does other work takes seconds for the rest.
	replaceTime = 5 * time.Second
)

// observer looks at the pods all the time. It knows the last ones when the API server is away, and what must never be.
type observer struct {
	rig *rig.Rig
	max int

	mutex    sync.Mutex
	managers []corev1.Pod
	runners  []corev1.Pod
	listener []corev1.Pod
	lately   map[types.UID]time.Time // when runner pods were seen alive, where that is not longer ago than replaceTime
	replicas int                     // of the EphemeralRunnerSet
	looked   time.Time
	excused  time.Duration // what gap was in all, before the last look
	// violations are kept once each.
	violations []string
}

// run looks until ctx ends.
func (o *observer) run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			o.look(ctx)
		}
	}
}

// look takes one look. What can't be seen stays as it was.
func (o *observer) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	system, err := o.list(ctx, o.rig.SystemNamespace)
	if err != nil {
		return
	}
	runners, err := o.list(ctx, o.rig.RunnerNamespace)
	if err != nil {
		return
	}
	var sets v1alpha1.EphemeralRunnerSetList
	if err := o.rig.Cluster.Client().List(ctx, &sets, client.InNamespace(o.rig.RunnerNamespace)); err != nil {
		return
	}
	o.note(system, runners, sets.Items)
}

func (o *observer) list(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := o.rig.Cluster.Client().List(ctx, &pods, client.InNamespace(namespace))
	return pods.Items, err
}

func (o *observer) note(system, runners []corev1.Pod, sets []v1alpha1.EphemeralRunnerSet) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.excused += o.gap()
	o.managers, o.listener, o.runners, o.looked = nil, nil, living(runners), time.Now()
	o.noteAlive()
	unended := len(slices.DeleteFunc(runners, ended))
	for _, pod := range living(system) {
		if pod.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentListener {
			o.listener = append(o.listener, pod)
		} else {
			o.managers = append(o.managers, pod)
		}
	}
	for i := range sets {
		o.replicas = sets[i].Spec.Replicas
	}
	if unended > o.max {
		o.violate("%d runner pods, maxRunners is %d", unended, o.max)
	}
	if len(o.listener) > 1 {
		o.violate("%d listener pods of one scale set", len(o.listener))
	}
	if sessions := len(o.rig.GitHub.Snapshot().Sessions); sessions > 1 {
		o.violate("%d sessions of one scale set", sessions)
	}
}

// noteAlive counts the runners seen now among those seen lately. The caller holds the lock.
func (o *observer) noteAlive() {
	if o.lately == nil {
		o.lately = map[types.UID]time.Time{}
	}
	for i := range o.runners {
		o.lately[o.runners[i].UID] = o.looked
	}
	maps.DeleteFunc(o.lately, func(_ types.UID, seen time.Time) bool { return o.looked.Sub(seen) > replaceTime })
}

// violate keeps what must not be, once. The caller holds the lock.
func (o *observer) violate(format string, values ...any) {
	line := fmt.Sprintf(format, values...)
	for _, known := range o.violations {
		if known[len("15:04:05 "):] == line {
			return
		}
	}
	o.violations = append(o.violations, time.Now().Format(time.TimeOnly)+" "+line)
}

// living are the pods that run or will, and that nobody has asked to go.
func living(pods []corev1.Pod) []corev1.Pod {
	var alive []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && !ended(pod) {
			alive = append(alive, pod)
		}
	}
	return alive
}

// ended reports whether no container of the pod runs, or will. One that was asked to go runs until then.
func ended(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// running returns the names of the pods whose containers run, as last seen.
func running(pods []corev1.Pod) []types.NamespacedName {
	var names []types.NamespacedName
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning {
			names = append(names, client.ObjectKeyFromObject(&pod))
		}
	}
	return names
}

// runnerPods, listenerPods and managerPods are those that ran when last seen.
func (o *observer) runnerPods() []types.NamespacedName   { return o.names(&o.runners) }
func (o *observer) listenerPods() []types.NamespacedName { return o.names(&o.listener) }
func (o *observer) managerPods() []types.NamespacedName  { return o.names(&o.managers) }

func (o *observer) names(pods *[]corev1.Pod) []types.NamespacedName {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return running(*pods)
}

// settled reports whether there are as many runners as GitHub's figures ask for, and what is seen. Pods that start count, and those
// that were there lately: with jobs of a second each there may be no moment at which all of them are there.
func (o *observer) settled(minRunners int) (bool, string) {
	assigned := 0
	snapshot := o.rig.GitHub.Snapshot()
	for _, set := range snapshot.ScaleSets {
		assigned += set.Statistics.Assigned
	}
	offered := snapshot.JobsByState["queued"] + snapshot.JobsByState["acquired"]
	o.mutex.Lock()
	defer o.mutex.Unlock()
	want, up := min(minRunners+assigned, o.max), len(o.lately)
	seen := fmt.Sprintf("%d jobs wait, %d assigned, %d runners wanted, replicas %d, %d pods, %d within %s, seen %s ago",
		offered, assigned, want, o.replicas, len(o.runners), up, replaceTime, time.Since(o.looked).Round(time.Millisecond))
	taken := offered == 0 || assigned >= o.max
	return taken && time.Since(o.looked) < lookTimeout && o.replicas == want && up >= want, seen
}

// excusedFor is how long since the beginning nothing follows from what the product did.
func (o *observer) excusedFor() time.Duration {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.excused + o.gap()
}

// gap is the time since the last look if that is too long ago, or if there was no manager pod: a ReplicaSet's controller, whose
// own caches may pause for a minute after an outage of the API server, has still to make one. The caller holds the lock.
func (o *observer) gap() time.Duration {
	since := time.Since(o.looked)
	if o.looked.IsZero() || since < lookTimeout && len(o.managers) > 0 {
		return 0
	}
	return since
}

// broken returns what was seen that must never be.
func (o *observer) broken() []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.violations
}
