// Package alone keeps the manager from acting beside another revision of its own Deployment. A rollout starts the new
// pod while the old one still ends, and the Lease keeps apart only managers that take it: actions-runner-controller, whose
// Deployment the chart takes over, takes none with one replica.
//
//	before the Lease is taken ─▶ Await: no pod of another template lives
//	while it is held          ─▶ Acting: none has started that takes no Lease
package alone

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/kube/revisions"
)

const (
	// lookAgain is the longest time between two looks while the manager waits. The watch tells sooner of what changes.
	lookAgain = 30 * time.Second
	// lookLimit ends a look that hangs.
	lookLimit = 10 * time.Second
	// An Event is written once the manager has waited for eventAfter, three times the 10 s that the charts, ours and
	// ARC's, give a manager to end; and again every eventRepeat, which is how long the API server keeps Events.
	eventAfter  = 30 * time.Second
	eventRepeat = time.Hour
)

// Deployment is the manager's own one. The zero Deployment, of a manager that doesn't know its pod, has no others.
type Deployment struct {
	// cluster isn't the manager's own client, which sends no writes before the manager leads: to say that it waits is
	// no act.
	cluster client.WithWatch
	clock   clock.Clock
	log     logr.Logger
	pod     *corev1.Pod
	own     revisions.Revision
	pods    watched

	mu sync.Mutex
	// awaited are the pods for which the manager waits, and unknown why it doesn't know whether there are any.
	awaited []corev1.Pod
	unknown error
	said    string
	since   time.Time
	written time.Time
}

// Find reads the manager's own pod. Without a name, as outside of a cluster, and for a pod that no Deployment has made,
// it returns a Deployment without others.
func Find(
	ctx context.Context, cluster client.WithWatch, pod types.NamespacedName, clk clock.Clock, log logr.Logger,
) (*Deployment, error) {
	if pod.Name == "" {
		return &Deployment{}, nil
	}
	own := &corev1.Pod{}
	switch err := cluster.Get(ctx, pod, own); {
	case apierrors.IsNotFound(err):
		log.Info("The manager's own pod is not there, so it does not look for other revisions of its Deployment",
			"pod", pod.String())
		return &Deployment{}, nil
	case err != nil:
		return nil, fmt.Errorf("read the manager's own pod %s; let its account get pods in its namespace, as the chart's "+
			"Role ...-listener does: %w", pod, err)
	}
	revision, ok := revisions.Of(own)
	if !ok {
		log.Info("No Deployment has made the manager's own pod, so it does not look for other revisions",
			"pod", pod.String())
		return &Deployment{}, nil
	}
	return &Deployment{cluster: cluster, clock: clk, log: log, pod: own, own: revision,
		pods: watched{changed: make(chan struct{})}}, nil
}

// known reports whether the manager knows its Deployment.
func (d *Deployment) known() bool { return d.pod != nil }

// Await returns when no pod of another revision lives, however long that takes, and says what it waits for. It fails
// only with the context's error.
//
// The watch says when to look, and the look is a list of its own: the watch's first list may be older than this pod.
func (d *Deployment) Await(ctx context.Context) error {
	if !d.known() {
		return ctx.Err()
	}
	for {
		d.pods.mu.Lock()
		news := d.pods.changed
		d.pods.mu.Unlock()
		others, err := d.look(ctx)
		d.remember(others, err)
		if err == nil && len(others) == 0 {
			return ctx.Err()
		}
		d.tell(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		case <-d.clock.After(lookAgain):
		}
	}
}

// look asks the API server for the other revisions' pods.
func (d *Deployment) look(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	pods := &corev1.PodList{}
	err := d.cluster.List(ctx, pods, client.InNamespace(d.own.Namespace),
		client.MatchingLabelsSelector{Selector: revisions.Selector()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of the manager's Deployment; the chart's Roles allow it: %w", err)
	}
	return d.own.Others(pods.Items), nil
}

// remember keeps what a look has shown, for Ready and the metric.
func (d *Deployment) remember(others []corev1.Pod, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaited, d.unknown = others, err
	waiting.Set(1)
	switch {
	case err == nil && len(others) == 0:
		waiting.Set(0)
		if d.said != "" {
			d.log.Info("No pod of another revision of the manager's Deployment lives any more", "waited",
				d.clock.Since(d.since).Round(time.Second).String())
		}
		d.said, d.since = "", time.Time{}
	case d.since.IsZero():
		d.since = d.clock.Now()
	}
}

// waits says what the manager waits for; nil if it doesn't wait. The caller holds the lock.
func (d *Deployment) waits() error {
	switch {
	case d.unknown != nil:
		return d.unknown
	case len(d.awaited) == 0:
		return nil
	}
	return fmt.Errorf("the manager does not act yet: pods of its Deployment %s with another template live, and may act: %s",
		d.own.Deployment, revisions.Describe(d.awaited))
}

// Ready returns an error while the manager waits for pods that are all being deleted, or can't know. While one of them
// isn't being deleted it is a standby, which is ready: a rollout that ends old pods only when new ones are ready would
// wait for it, and it for the rollout.
func (d *Deployment) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unknown == nil && !revisions.AllDeleted(d.awaited) {
		return nil
	}
	return d.waits()
}

// ErrReplaced is why a manager that held the Lease ends.
var ErrReplaced = errors.New("a pod of the manager's own Deployment has started that acts without the Lease")

// Acting returns an error if another revision's pod has started that takes no Lease, as when the chart of
// actions-runner-controller takes the Deployment back. It asks the API server nothing.
func (d *Deployment) Acting() error {
	if !d.known() {
		return nil
	}
	if acting := revisions.Acting(d.own.Others(d.pods.all())); len(acting) > 0 {
		return fmt.Errorf("%w: %s; this one ends and waits until that is gone", ErrReplaced, revisions.Describe(acting))
	}
	return nil
}
