package fakenode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/kube/informer"
)

// Claims are the PersistentVolumeClaims of a node's pods. Package fakestorage plays them; without it they are like
// empty directories.
type Claims interface {
	// Place returns when the pod may be bound to the node. Until then pending is called with what a scheduler says of
	// it. It fails if ctx ends first.
	Place(ctx context.Context, pod *corev1.Pod, pending func(message string)) error
	// Mount returns when the pod has its claims. Until then failed is called with what a kubelet says. It fails if ctx
	// ends first.
	Mount(ctx context.Context, pod *corev1.Pod, failed func(message string)) error
	// Unmount says that no container of the pod runs any more.
	Unmount(pod *corev1.Pod)
}

// Options configure a node. The zero value plays all pods of all namespaces as node "fake-node".
type Options struct {
	// Name is the node's name. Pods bound to another node are left alone. No Node object is created.
	Name string
	// Namespace limits the node to one namespace.
	Namespace string
	// Accepts chooses the unbound pods that this node binds to itself. Nil accepts all.
	Accepts func(*corev1.Pod) bool
	// StartLatency is the time from the binding to the start of the first container. Default 50 ms.
	StartLatency time.Duration
	// Runners play containers, by container name. Without one, an init container exits 0 immediately, and a sidecar or
	// other container runs until it is stopped.
	Runners map[string]Runner
	// Claims play the PersistentVolumeClaims that pods mount. Nil means that all claims can be had.
	Claims Claims
	// RestartBackOff is the pause before the second restart of a container. As in a kubelet, it doubles with every
	// further restart, up to 5 min, and the first restart is immediate. Default 10 s.
	RestartBackOff time.Duration
	// ProbePeriod replaces the periods of all probes. Zero keeps those of the pods. The time after which a startup
	// probe fails does not change, because programs start slowly on a busy machine.
	ProbePeriod time.Duration
	// Writes bounds the requests in flight. Default 32.
	Writes int
	// Clock drives latencies, back-offs, grace periods and probes. Default: the real one.
	Clock clock.WithTicker
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "fake-node"
	}
	if o.Accepts == nil {
		o.Accepts = func(*corev1.Pod) bool { return true }
	}
	if o.StartLatency == 0 {
		o.StartLatency = 50 * time.Millisecond
	}
	if o.RestartBackOff == 0 {
		o.RestartBackOff = 10 * time.Second
	}
	if o.Writes == 0 {
		o.Writes = 32
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Node plays pods until it is stopped.
type Node struct {
	options   Options
	config    *rest.Config
	clientset kubernetes.Interface
	directory string
	writes    chan struct{}
	cancel    context.CancelFunc
	playing   sync.WaitGroup

	mu      sync.Mutex
	players map[types.UID]*player
	onStart func(*corev1.Pod) Fault
}

// Start launches a node that ends with the test. The test fails if the API server can't be reached.
func Start(t testing.TB, config *rest.Config, options Options) *Node {
	t.Helper()
	node, err := Launch(context.Background(), config, options)
	if err != nil {
		t.Fatalf("start a fake node: %v", err)
	}
	t.Cleanup(node.Stop)
	return node
}

// Launch starts a node that acts with config, which has to be an administrator's: the node issues tokens, reads Secrets
// and writes pod status. It ends with ctx or Stop.
func Launch(ctx context.Context, config *rest.Config, options Options) (*Node, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent = -1, "fakenode"
	// As a kubelet. To decode JSON costs both sides more.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the node's client: %w", err)
	}
	directory, err := os.MkdirTemp("", "fakenode-")
	if err != nil {
		return nil, fmt.Errorf("make the node's directory: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	options = options.withDefaults()
	n := &Node{
		options: options, config: config, clientset: clientset, directory: directory, cancel: cancel,
		writes: make(chan struct{}, options.Writes), players: map[types.UID]*player{},
	}
	if err := n.watch(ctx); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// Stop kills every container, waits until they have ended, and removes the node's files. Pods stay as they are, as on a
// machine that lost power.
func (n *Node) Stop() {
	n.cancel()
	n.playing.Wait()
	// Nothing of interest is left in a temporary directory.
	_ = os.RemoveAll(n.directory)
}

// watch starts to follow pods and returns when the existing ones are known.
func (n *Node) watch(ctx context.Context) error {
	source := cache.NewListWatchFromClient(n.clientset.CoreV1().RESTClient(), "pods", n.options.Namespace,
		fields.Everything())
	// Persistent, because a kubelet reconnects soon after its API server is back.
	pods := cache.NewSharedIndexInformer(informer.Persistent(source, n.options.Clock), &corev1.Pod{}, 0,
		cache.Indexers{})
	if err := pods.SetTransform(withoutManagedFields); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.seen(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(before, after any) { n.updated(ctx, before.(*corev1.Pod), after.(*corev1.Pod)) },
		DeleteFunc: n.removed,
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	n.playing.Go(func() { pods.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return errors.New("watch pods: stopped before the first list came")
	}
	return nil
}

// withoutManagedFields halves the memory of a pod.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// updated also covers a pod that was replaced by one of the same name while the watch was away.
func (n *Node) updated(ctx context.Context, before, after *corev1.Pod) {
	if before.UID != after.UID {
		n.removed(before)
	}
	n.seen(ctx, after)
}

// seen passes a new state of the pod to its player, and starts a player for a new pod of this node.
func (n *Node) seen(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.players[pod.UID]; known != nil {
		known.observe(pod)
		return
	}
	if ctx.Err() != nil || !n.plays(pod) {
		return
	}
	p := newPlayer(ctx, n, pod)
	n.players[pod.UID] = p
	n.playing.Go(p.play)
}

func (n *Node) plays(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName == n.options.Name
	}
	return pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && n.options.Accepts(pod)
}

func (n *Node) removed(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.players[pod.UID]; known != nil {
		delete(n.players, pod.UID)
		known.gone()
	}
}

// player returns the player of a pod by the pod's name.
func (n *Node) player(key types.NamespacedName) (*player, error) {
	named := func(pod *corev1.Pod) bool { return pod.Namespace == key.Namespace && pod.Name == key.Name }
	for _, p := range n.matching(named) {
		return p, nil
	}
	return nil, fmt.Errorf("pod %s isn't on node %s", key, n.options.Name)
}

func (n *Node) matching(match func(*corev1.Pod) bool) []*player {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*player
	for _, p := range n.players {
		if match(p.pod) {
			found = append(found, p)
		}
	}
	return found
}

// Address returns the address of a port of the pod on this machine. It fails if the pod is not on this node or no
// running program (Exec) in it has an address for the port.
func (n *Node) Address(pod types.NamespacedName, port int32) (string, error) {
	p, err := n.player(pod)
	if err != nil {
		return "", err
	}
	for _, running := range p.running() {
		if address := running.addresses[port]; address != "" {
			return address, nil
		}
	}
	return "", fmt.Errorf("pod %s has no port %d on this machine", pod, port)
}

// Log returns the output of the programs (Exec) of a container, over all its restarts. It outlives the pod.
func (n *Node) Log(pod types.NamespacedName, container string) (string, error) {
	content, err := os.ReadFile(n.logPath(pod, container))
	if err != nil {
		return "", fmt.Errorf("read the log of container %s of pod %s: %w", container, pod, err)
	}
	return string(content), nil
}

func (n *Node) logPath(pod types.NamespacedName, container string) string {
	return filepath.Join(n.directory, pod.Namespace+"_"+pod.Name+"_"+container+".log")
}
