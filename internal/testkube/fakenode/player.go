package fakenode

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

// player plays one pod in three goroutines: play waits for the deletion, body takes the containers from start to end,
// and publish writes changes of the status to the API server.
type player struct {
	node      *Node
	pod       *corev1.Pod // as first seen, but with its node name; not changed afterwards
	bind      bool        // nobody has bound it yet
	directory string      // for its volumes

	// Contexts. kept and wanted also end with present.
	present  context.Context // ends when the object is gone or the node stopped
	gone     context.CancelFunc
	kept     context.Context // ends when the deletion is requested
	deletion context.CancelFunc
	wanted   context.Context // ends when the containers have to stop: deletion, eviction
	stop     context.CancelFunc

	ended   chan struct{} // closed when all containers have ended and none starts again
	changed chan struct{} // there is something to publish
	hurried chan struct{} // the grace period has changed

	mu         sync.Mutex
	containers map[string]*corev1.ContainerStatus
	runs       map[string]*Container
	view       view // status completes it
	grace      time.Duration
	thawed     chan struct{} // closed unless the node is lost
	killed     bool          // no container starts any more

	writing    sync.Mutex // held during a request
	publishing sync.Mutex // held from looking at the state to the API server's answer
	lastStatus *corev1.PodStatus
	mounting   sync.Mutex
	filled     map[string]bool // the volumes that are mounted, by name
	mounted    bool            // all of them, and the kubeconfig is written
}

func newPlayer(ctx context.Context, node *Node, pod *corev1.Pod) *player {
	p := &player{
		node: node, pod: pod.DeepCopy(), bind: pod.Spec.NodeName == "",
		directory: filepath.Join(node.directory, string(pod.UID)),
		ended:     make(chan struct{}), changed: make(chan struct{}, 1), hurried: make(chan struct{}, 1),
		thawed:     make(chan struct{}),
		containers: map[string]*corev1.ContainerStatus{}, runs: map[string]*Container{}, filled: map[string]bool{},
	}
	p.pod.Spec.NodeName = node.options.Name
	p.present, p.gone = context.WithCancel(ctx)
	p.kept, p.deletion = context.WithCancel(p.present)
	p.wanted, p.stop = context.WithCancel(p.present)
	close(p.thawed)
	p.view = view{pod: p.pod, previous: pod.Status.Conditions, started: metav1.NewTime(node.options.Clock.Now())}
	p.observe(pod)
	return p
}

func (p *player) key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.pod.Namespace, Name: p.pod.Name}
}

// observe notes a deletion and its grace period, which a second deletion can shorten.
func (p *player) observe(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil {
		return
	}
	var grace time.Duration
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	p.mu.Lock()
	p.grace = grace
	p.mu.Unlock()
	signal(p.hurried)
	p.deletion()
}

// signal wakes the receiver, which then looks at everything that has happened so far.
func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// play is the pod's life from first sight to the disappearance of its object.
func (p *player) play() {
	defer p.removeDirectory()
	// No process outlives the object or the node.
	defer context.AfterFunc(p.present, func() { p.kill() })()
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(p.publish)
	parts.Go(func() {
		defer close(p.ended)
		p.body()
	})
	<-p.kept.Done()
	// A lost node doesn't learn of deletions.
	p.awaitThaw()
	p.stop()
	p.awaitEnd()
	p.remove()
	<-p.present.Done()
	p.kill()
}

// awaitEnd gives the containers their grace period, then kills them.
func (p *player) awaitEnd() {
	begin := p.node.options.Clock.Now()
	for {
		p.mu.Lock()
		left := p.grace - p.node.options.Clock.Since(begin)
		p.mu.Unlock()
		timer := p.node.options.Clock.NewTimer(left)
		select {
		case <-p.ended:
			timer.Stop()
			return
		case <-p.hurried:
			timer.Stop()
		case <-timer.C():
			p.kill()
			<-p.ended
			return
		}
	}
}

// body takes the pod from binding to the end of its containers.
func (p *player) body() {
	if p.pod.Status.Phase == corev1.PodSucceeded || p.pod.Status.Phase == corev1.PodFailed {
		p.resume()
		return
	}
	if p.pod.Status.Phase == corev1.PodRunning && p.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		p.fail(outcome{
			reason:  "ContainerStatusUnknown",
			message: "The node was restarted and doesn't know the pod's containers.",
		})
		return
	}
	if claims := p.node.options.Claims; claims != nil {
		defer claims.Unmount(p.pod)
	}
	fault := p.node.faultFor(p.pod)
	if !p.schedule(fault) || !p.begin(fault) {
		return
	}
	sidecars, stopSidecars := context.WithCancel(p.present)
	defer stopSidecars()
	var running sync.WaitGroup
	defer running.Wait()
	if p.initialize(sidecars, &running) {
		p.runMain()
	}
	stopSidecars()
}

// resume takes over the status of a pod that had ended before this node saw it, so that nothing is written.
func (p *player) resume() {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.lastStatus = &p.pod.Status
}

// initialize runs init containers one after the other and leaves sidecars running. It reports whether the other
// containers may start.
func (p *player) initialize(sidecars context.Context, running *sync.WaitGroup) bool {
	for _, container := range p.pod.Spec.InitContainers {
		if p.wanted.Err() != nil {
			return false
		}
		if isSidecar(container) {
			up := make(chan struct{})
			// Sidecars outlive the pod's own stop: they end after the containers they serve.
			running.Go(func() { p.loop(sidecars, container, corev1.RestartPolicyAlways, up) })
			select {
			case <-up:
			case <-p.wanted.Done():
			}
			continue
		}
		// Init containers run to completion, so that Always means OnFailure for them.
		policy := p.pod.Spec.RestartPolicy
		if policy == corev1.RestartPolicyAlways {
			policy = corev1.RestartPolicyOnFailure
		}
		if p.loop(p.wanted, container, policy, nil) != 0 {
			return false
		}
	}
	return p.wanted.Err() == nil
}

// runMain runs the pod's containers side by side until the last one has ended.
func (p *player) runMain() {
	var running sync.WaitGroup
	for _, container := range p.pod.Spec.Containers {
		running.Go(func() { p.loop(p.wanted, container, p.pod.Spec.RestartPolicy, nil) })
	}
	running.Wait()
}

// pause waits for the duration and reports whether it has passed before ctx ended.
func (p *player) pause(ctx context.Context, duration time.Duration) bool {
	if duration <= 0 {
		return ctx.Err() == nil
	}
	timer := p.node.options.Clock.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// running returns the containers that run now.
func (p *player) running() []*Container {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := make([]*Container, 0, len(p.runs))
	for _, run := range p.runs {
		running = append(running, run)
	}
	return running
}

// kill ends all containers immediately; none starts afterwards.
func (p *player) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.stop()
	for _, run := range p.running() {
		run.kill("Error")
	}
}

// fail ends the pod as a whole.
func (p *player) fail(how outcome) {
	p.update(func() { p.view.scheduled, p.view.outcome = true, &how })
	p.kill()
}

// update changes the state and makes publish write it.
func (p *player) update(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	signal(p.changed)
}

// awaitThaw waits while the pod's node is lost.
func (p *player) awaitThaw() {
	p.mu.Lock()
	thawed := p.thawed
	p.mu.Unlock()
	select {
	case <-thawed:
	case <-p.present.Done():
	}
}

// mountClaims waits until the pod has its claims, and reports whether it has. What keeps it from them is an Event that
// is said again, more and more seldom, as a kubelet does.
func (p *player) mountClaims() bool {
	var said *corev1.Event
	var next time.Time
	return p.node.options.Claims.Mount(p.wanted, p.pod, func(message string) {
		now := metav1.NewTime(p.node.options.Clock.Now())
		if said == nil || said.Message != message {
			signal(p.changed)
			said = &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name + "." + rand.String(8)},
				InvolvedObject: corev1.ObjectReference{
					Kind: "Pod", APIVersion: "v1", Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID,
				},
				Type: corev1.EventTypeWarning, Reason: "FailedMount", Message: message, Count: 1, FirstTimestamp: now,
				LastTimestamp: now,
				Source:        corev1.EventSource{Component: "kubelet", Host: p.node.options.Name},
			}
			p.write(func(ctx context.Context) error {
				_, err := p.node.clientset.CoreV1().Events(said.Namespace).Create(ctx, said, metav1.CreateOptions{})
				return err
			})
		} else if !now.Time.Before(next) {
			said.Count, said.LastTimestamp = said.Count+1, now
			patch := fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, said.Count, now.UTC().Format(time.RFC3339))
			p.write(func(ctx context.Context) error {
				_, err := p.node.clientset.CoreV1().Events(said.Namespace).Patch(ctx, said.Name, types.MergePatchType,
					[]byte(patch), metav1.PatchOptions{})
				return err
			})
		} else {
			return
		}
		next = now.Add(time.Second << min(said.Count-1, 7)) // a kubelet's longest pause is 122 s
	}) == nil
}
