package volumeclaims_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/nodes"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

const (
	// step is the time between two moments of a simulation; at each, the manager makes a pass.
	step = 10 * time.Second
	// A node without a pod is removed by the autoscaler after scaleDown.
	scaleDown = 5 * time.Minute
	// The manager reads volumes, and what autoscalers say, of pods that have had no node for readAfter.
	readAfter = 20 * time.Second
)

// simulation is a cluster in which jobs come and go. Which pod gets which node, what a volume can be used on, and what
// an autoscaler makes, is decided here alone; the package under test is only asked which claims runners get.
type simulation struct {
	*testing.T
	now   time.Time
	world simulated
	set   *v1alpha1.AutoscalingRunnerSet

	memory  *volumeclaims.Memory
	last    volumeclaims.Decision
	watched *nodes.Watched
	nodes   map[string]*simNode
	volumes map[string]*simVolume // by the names of claims
	pods    map[string]*simPod    // by the names of runners
	orders  []simOrder            // nodes that are being made
	wishes  []time.Time           // when the jobs came that have no runner
	names   int
	result  simResult
}

// simulated is what a world is like.
type simulated struct {
	zones []string
	// local: a volume can be used on its node only, else in its zone.
	local bool
	// An autoscaler makes a node within delay for each pod that waits, in each zone but those in broken; 0 means that
	// there is none. It says so in Events if it tells.
	delay  time.Duration
	tells  bool
	broken sets.Set[string]
	// blind: the manager may read neither nodes nor volumes.
	blind bool
	// job is how long a job takes.
	job time.Duration
	// refused: the quota refuses new claims; unmade: the provisioner fails; unmounted: nodes can't mount anything.
	refused, unmade, unmounted bool
}

type simNode struct {
	name, zone string
	madeAt     time.Time
	cordoned   bool
	static     bool // it isn't the autoscaler's
	taken      int  // pods of others, of room
	room       int
	idleSince  time.Time
}

type simVolume struct {
	pvc        *corev1.PersistentVolumeClaim
	zone, node string
	used, read bool
	taken      bool // by a pod that isn't a runner's
}

type simPod struct {
	name, claim string    // no claim means an empty directory
	wishedAt    time.Time // when its job came
	createdAt   time.Time
	unplacedAt  time.Time
	placedAt    time.Time
	node        string
	endsAt      time.Time
	failure     volumeclaims.FailureKind
	failsSince  time.Time
	orderedFor  bool
	denied      bool
}

type simOrder struct {
	zone  string
	ready time.Time
}

// simResult is what a simulation measures.
type simResult struct {
	jobs, hits, empty int           // started; with a volume that another has used; with an empty directory
	swaps, deleted    int           // runners that gave way; claims
	most              int           // runners at a time
	longest           time.Duration // from a job's coming to its start
}

func simulate(t *testing.T, world simulated) *simulation {
	t.Helper()
	s := &simulation{T: t, now: start, world: world, set: newSet("docker"), memory: volumeclaims.NewMemory("linux"),
		watched: &nodes.Watched{}, nodes: map[string]*simNode{}, volumes: map[string]*simVolume{},
		pods: map[string]*simPod{}}
	s.watched.Await(func() bool { return true })
	if world.job == 0 {
		s.world.job = 5 * time.Minute
	}
	return s
}

// node adds a node.
func (s *simulation) node(zone string, room int, static bool) *simNode {
	s.names++
	n := &simNode{name: fmt.Sprint("node-", s.names), zone: zone, room: room, static: static, madeAt: s.now,
		idleSince: s.now}
	s.nodes[n.name] = n
	s.show(n)
	return n
}

// show lets the watch show a node as it is.
func (s *simulation) show(n *simNode) {
	s.watched.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, CreationTimestamp: metav1.NewTime(n.madeAt),
		Labels: map[string]string{corev1.LabelTopologyZone: n.zone, corev1.LabelHostname: n.name}},
		Spec: corev1.NodeSpec{Unschedulable: n.cordoned}})
}

// lose removes a node, and the pods that it has.
func (s *simulation) lose(n *simNode) {
	delete(s.nodes, n.name)
	s.watched.Remove(n.name)
	for name, pod := range s.pods {
		if pod.node == n.name {
			delete(s.pods, name)
			s.wishes = append(s.wishes, pod.wishedAt)
		}
	}
}

// cache adds a claim that a job has used, with a volume in a zone and on a node of it.
func (s *simulation) cache(zone, node string) {
	s.names++
	suffix := fmt.Sprintf("b%c%c%c%c", "bcdfghjk"[s.names%8], "bcdfghjk"[s.names/8%8], "bcdfghjk"[s.names/64%8], 'b')
	claim := s.provide("linux-docker-"+suffix, zone, node)
	claim.used = true
}

// provide makes a claim, with a volume if there is a zone.
func (s *simulation) provide(name, zone, node string) *simVolume {
	runner := &v1alpha1.EphemeralRunner{Spec: v1alpha1.EphemeralRunnerSpec{
		GitHubConfigUrl: s.set.Spec.GitHubConfigUrl, VolumeClaims: map[string]string{"docker": name}}}
	made := volumeclaims.Missing(s.set, runner, func(string) *corev1.PersistentVolumeClaim { return nil })
	if len(made) != 1 {
		s.Fatalf("%d claims made for %s", len(made), name)
	}
	s.names++
	pvc := made[0]
	pvc.UID, pvc.CreationTimestamp = types.UID(fmt.Sprint("claim-", s.names)), metav1.NewTime(s.now)
	pvc.Status.Phase = corev1.ClaimPending
	volume := &simVolume{pvc: pvc}
	s.volumes[name] = volume
	if zone != "" {
		s.bind(volume, zone, node)
	}
	return volume
}

func (s *simulation) bind(v *simVolume, zone, node string) {
	v.zone, v.node = zone, node
	v.pvc.Status.Phase = corev1.ClaimBound
	v.pvc.Annotations = map[string]string{"volume.kubernetes.io/selected-node": node}
}

// run lets time pass.
func (s *simulation) run(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.autoscale()
		s.schedule()
		s.work()
		s.pass()
		next := step
		if len(s.pods)+len(s.wishes)+len(s.orders) == 0 { // nothing happens, and that is quick
			next = min(time.Minute, end.Sub(s.now))
		}
		s.now = s.now.Add(next)
	}
}

// usable reports whether a volume can be used on a node.
func (s *simulation) usable(v *simVolume, n *simNode) bool {
	if v != nil && v.taken {
		return false
	}
	return v == nil || v.zone == "" || (v.zone == n.zone && (!s.world.local || v.node == n.name))
}

func (s *simulation) free(n *simNode) int {
	used := n.taken
	for _, pod := range s.pods {
		if pod.node == n.name {
			used++
		}
	}
	return n.room - used
}

// fits reports whether a pod with that volume, nil for none, can come to a node.
func (s *simulation) fits(v *simVolume, n *simNode) bool {
	makes := v != nil && v.zone == ""
	return !n.cordoned && s.free(n) > 0 && s.usable(v, n) && (!makes || !s.world.unmade)
}

// schedule gives pods their nodes, as the scheduler does: the oldest first.
func (s *simulation) schedule() {
	for _, pod := range s.ordered() {
		if pod.node != "" || (pod.claim != "" && s.volumes[pod.claim] == nil) {
			continue
		}
		v := s.volumes[pod.claim]
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			n := s.nodes[name]
			if !s.fits(v, n) {
				continue
			}
			if v != nil && v.zone == "" {
				s.bind(v, n.zone, n.name)
			}
			pod.node, pod.placedAt, pod.unplacedAt, pod.failure = n.name, s.now, time.Time{}, ""
			break
		}
		if pod.node == "" && pod.unplacedAt.IsZero() {
			pod.unplacedAt = s.now
		}
	}
}

func (s *simulation) ordered() []*simPod {
	return slices.SortedFunc(maps.Values(s.pods), func(a, b *simPod) int {
		return a.createdAt.Compare(b.createdAt)*2 + map[bool]int{true: 1, false: -1}[a.name > b.name]
	})
}

// autoscale makes nodes for pods that wait, and removes those that nobody uses.
func (s *simulation) autoscale() {
	if s.world.delay == 0 {
		return
	}
	s.orders = slices.DeleteFunc(s.orders, func(o simOrder) bool {
		if !o.ready.After(s.now) {
			s.node(o.zone, 1, false)
			return true
		}
		return false
	})
	for _, pod := range s.ordered() {
		if !pod.unplacedAt.IsZero() && !pod.orderedFor && pod.node == "" {
			s.order(pod)
		}
	}
	for _, n := range s.nodes {
		switch {
		case n.static:
		case s.free(n) < n.room:
			n.idleSince = s.now
		case s.now.Sub(n.idleSince) >= scaleDown:
			s.lose(n)
		}
	}
}

// order has a node made for a pod, where its volume can be used.
func (s *simulation) order(pod *simPod) {
	zone, v := s.world.zones[len(s.orders)%len(s.world.zones)], s.volumes[pod.claim]
	if v != nil && v.zone != "" {
		zone = v.zone
	}
	if s.world.broken.Has(zone) || (s.world.local && v != nil && v.node != "") {
		pod.denied = true
		return
	}
	pod.orderedFor = true
	s.orders = append(s.orders, simOrder{zone, s.now.Add(s.world.delay)})
}

// work starts and ends jobs.
func (s *simulation) work() {
	for name, pod := range s.pods {
		v := s.volumes[pod.claim]
		switch {
		case pod.node == "":
		case s.world.unmounted && v != nil:
			if pod.failure == "" {
				pod.failure, pod.failsSince = volumeclaims.Unmounted, s.now
			}
		case pod.endsAt.IsZero():
			pod.endsAt, pod.failure = s.now.Add(s.world.job), ""
			s.result.jobs++
			s.result.longest = max(s.result.longest, s.now.Sub(pod.wishedAt))
			switch {
			case v == nil:
				s.result.empty++
			case v.used:
				s.result.hits++
			default:
				v.used = true
			}
		case !s.now.Before(pod.endsAt):
			delete(s.pods, name)
		}
	}
	s.result.most = max(s.result.most, len(s.pods))
}

// jobs adds jobs that come now.
func (s *simulation) jobs(n int) {
	for range n {
		s.wishes = append(s.wishes, s.now)
	}
}
