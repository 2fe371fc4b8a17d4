// Package mark writes on a runner's pod which job it runs, and that it must not be evicted meanwhile, nor before it is
// known whether it gets a job at once. It also has the gate for all writes that only report something: they wait while
// there is more urgent work for the API server.
package mark

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// Options are what a Marker needs from outside.
type Options struct {
	// Client reads from the manager's cache and writes to the API server. Reader reads from the API server.
	Client   client.Client
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Gate     *Gate
	// JobMetadata writes on a pod which job it runs, and not only that it runs one. JobProtection adds the annotations
	// that keep node autoscalers away while the job runs.
	JobMetadata, JobProtection bool
}

// Marker writes on pods. Safe for concurrent use.
type Marker struct {
	options Options

	mu sync.Mutex
	// forbidden holds the namespaces in which the API server forbids patching pods.
	forbidden map[string]forbidding
	// unprotected holds the namespaces whose new pods are to have no protection, and until when.
	unprotected map[string]time.Time
}

// New returns a Marker.
func New(options Options) *Marker {
	return &Marker{options: options, forbidden: map[string]forbidding{}, unprotected: map[string]time.Time{}}
}

// podPatch returns the merge patch. The UID makes the API server refuse a pod that only has the same name. With
// onlyUnchanged it also refuses one that was written since it was read: another manager may have led meanwhile, or still
// have a write under way. The record
// of who wrote which field of the pod (managedFields), more than a third of it, is cleared by the way: with it this
// write is half as expensive again, each later report of the kubelet twice as expensive, and the watch of pods late on
// a busy API server (docs/performance.md says why). It stays if somebody uses server-side apply.
func podPatch(pod *corev1.Pod, annotations, labels map[string]any, onlyUnchanged bool) ([]byte, error) {
	metadata := map[string]any{"uid": pod.UID}
	if onlyUnchanged {
		metadata["resourceVersion"] = pod.ResourceVersion
	}
	if annotations != nil {
		metadata["annotations"] = annotations // null would remove all
	}
	if labels != nil {
		metadata["labels"] = labels
	}
	if !slices.ContainsFunc(pod.ManagedFields, kube.IsApplied) {
		metadata["managedFields"] = kube.ClearedManagedFields()
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}

const (
	// MaxWrites limits concurrent writes that only report something. The limit is approximate, since check and enter
	// are not atomic. An API server that gets as many of these writes as it can take delivers its watches late: with 32
	// at the same time on two cores, the end of a pod was seen 5 s after the fact.
	MaxWrites = 4
	// The reports that a runner runs, and which job, make way for everything else until DeferTimeout after the start of
	// its container. After that they only wait for each other: jobs that began together are overdue together, often
	// when they end. After twice as long they wait for nothing. A deferred report is reconsidered every one to two
	// recheckIntervals: each time costs a pass of 0.1 ms, 70 ms of every second for 1,000 runners.
	DeferTimeout    = 10 * time.Second
	recheckInterval = time.Second
)

// Gate holds back writes that only report something while ended pods wait to be deleted, or while MaxWrites
// passes are already writing. Safe for concurrent use.
type Gate struct {
	pool *pool.Pool

	mu      sync.Mutex
	ended   sets.Set[types.NamespacedName] // runners whose pods have ended and that have had no pass since
	writing int                            // passes
}

// NewGate returns a gate that also holds back writes while calls of the runner's own set wait in the pool.
func NewGate(pool *pool.Pool) *Gate {
	return &Gate{pool: pool, ended: sets.New[types.NamespacedName]()}
}

// PodEnded remembers that the runner's pod has ended and must still be deleted.
func (g *Gate) PodEnded(runner types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended.Insert(runner)
}

// Handled remembers that a pass of the runner has ended.
func (g *Gate) Handled(runner types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended.Delete(runner)
}

// Enter counts a pass that writes, until leave is called. It never waits: see Defers.
func (g *Gate) Enter() (leave func()) {
	count := func(change int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.writing += change
	}
	count(1)
	return func() { count(-1) }
}

// Defers reports whether writes that only report something about a runner must wait. up is the time since the runner's
// container started. Calls that register and create runners, the deletion of ended pods and these writes compete for
// the API server.
func (g *Gate) Defers(runner *v1alpha1.EphemeralRunner, up time.Duration) bool {
	if up < DeferTimeout && g.pool.Waiting(kube.ScaleSetOf(runner).String()) {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch full := g.writing >= MaxWrites; {
	case up >= 2*DeferTimeout:
		return false
	case up >= DeferTimeout:
		return full
	default:
		return full || g.ended.Len() > 0
	}
}

// RecheckAt returns the time to reconsider a deferred report of the runner. Runners that were started together come
// back apart, so that some find the gate open at any time.
func RecheckAt(runner *v1alpha1.EphemeralRunner, now time.Time) time.Time {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(runner.UID)) // never fails
	spread := time.Duration(hash.Sum32()%1000) * recheckInterval / 1000
	return now.Add(recheckInterval + spread)
}
