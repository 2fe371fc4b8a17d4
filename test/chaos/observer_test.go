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
	// lookInterval is the time between two observations. For one the API server may take lookTimeout.
	lookInterval = 200 * time.Millisecond
	lookTimeout  = 2 * time.Second
	// A runner's place may be empty for replaceTime after its job. Without faults, GitHub alone takes 0.2 s
	// (jitLatency) to register the next runner, and a busy machine takes seconds for the rest.
	replaceTime = 5 * time.Second
)

// observer watches the pods all the time. While the API server is away it still knows those that it saw last. It
// records what must never happen.
type observer struct {
	rig *rig.Rig
	max int
	// maxClaims bounds the claims of each template, 0 for any number.
	maxClaims int

	mutex    sync.Mutex
	managers []corev1.Pod
	runners  []corev1.Pod
	listener []corev1.Pod
	lately   map[types.UID]time.Time // when runner pods were last seen alive, if within replaceTime
	replicas int                     // of the EphemeralRunnerSet
	looked   time.Time
	excused  time.Duration // the sum of all gaps before the last look
	// violations lists what was seen and must never happen, without repetitions.
	violations []string
}

// run observes until ctx ends.
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

// look makes one observation. If the API server does not answer, the last one stays.
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
	var claims corev1.PersistentVolumeClaimList
	if err := o.rig.Cluster.Client().List(ctx, &claims, client.InNamespace(o.rig.RunnerNamespace)); err != nil {
		return
	}
	o.note(system, runners, sets.Items)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.noteClaims(claims.Items)
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

// noteAlive adds the runners seen now to those seen lately and forgets those seen too long ago. The caller holds the
// lock.
func (o *observer) noteAlive() {
	if o.lately == nil {
		o.lately = map[types.UID]time.Time{}
	}
	for i := range o.runners {
		o.lately[o.runners[i].UID] = o.looked
	}
	maps.DeleteFunc(o.lately, func(_ types.UID, seen time.Time) bool { return o.looked.Sub(seen) > replaceTime })
}

// violate records a violation unless it is known. The caller holds the lock.
func (o *observer) violate(format string, values ...any) {
	line := fmt.Sprintf(format, values...)
	for _, known := range o.violations {
		if known[len("15:04:05 "):] == line {
			return
		}
	}
	o.violations = append(o.violations, time.Now().Format(time.TimeOnly)+" "+line)
}

// living returns the pods that run, or will, and whose deletion has not been requested.
func living(pods []corev1.Pod) []corev1.Pod {
	var alive []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && !ended(pod) {
			alive = append(alive, pod)
		}
	}
	return alive
}

// ended reports whether all containers of the pod have ended and will not be restarted. Those of a pod that is being
// deleted run until then.
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

// runnerPods, listenerPods and managerPods return the pods that were running when last seen.
func (o *observer) runnerPods() []types.NamespacedName   { return o.names(&o.runners) }
func (o *observer) listenerPods() []types.NamespacedName { return o.names(&o.listener) }
func (o *observer) managerPods() []types.NamespacedName  { return o.names(&o.managers) }

func (o *observer) names(pods *[]corev1.Pod) []types.NamespacedName {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return running(*pods)
}

// settled reports whether there are as many runners as GitHub's statistics call for, and describes what was seen. Pods
// that are starting count, and so do those seen alive within replaceTime: with jobs of a second each, there may be no
// moment at which all runners exist.
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
		offered, assigned, want, o.replicas, len(o.runners), up, replaceTime, time.Since(o.looked).
			Round(time.Millisecond))
	taken := offered == 0 || assigned >= o.max
	return taken && time.Since(o.looked) < lookTimeout && o.replicas == want && up >= want, seen
}

// excusedFor returns the part of the time since the beginning for which the product can't be judged, see gap.
func (o *observer) excusedFor() time.Duration {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.excused + o.gap()
}

// gap returns the time since the last look if that is too long ago or found no manager pod, else zero. Without a pod
// the product can't be blamed: after an outage of the API server, the caches of the ReplicaSet controller may pause for
// a minute before it creates one. The caller holds the lock.
func (o *observer) gap() time.Duration {
	since := time.Since(o.looked)
	if o.looked.IsZero() || (since < lookTimeout && len(o.managers) > 0) {
		return 0
	}
	return since
}

// broken returns the violations.
func (o *observer) broken() []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.violations
}
