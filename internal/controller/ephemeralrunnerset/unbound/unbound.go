// Package unbound finds out why pods of runners wait for volumes, in the words of their claims' own Events: the
// scheduler says only that a claim has no volume.
package unbound

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// Events are asked for every interval while a pod waits for a volume.
const interval = 30 * time.Second

// reasons are those of Events that say why a claim has no volume.
var reasons = []string{kube.EventFailedBinding, kube.EventProvisioningFailed}

// Claims asks about the claims of runners' pods.
type Claims struct {
	reader   client.Reader
	memories pass.Memories[memory]
}

// memory is what is known of one runner set.
type memory struct {
	askAt time.Time
	// said has what the last Event says about the claim of a pod.
	said map[string]string
}

// New returns Claims that read Events from the API server.
func New(reader client.Reader) *Claims { return &Claims{reader: reader} }

// Forget drops what is remembered of a runner set that is gone.
func (c *Claims) Forget(set types.UID) { c.memories.Forget(set) }

// Of returns what Events say about the claims of runners whose pods wait for volumes, by the runners' names. Without the
// right to list Events it returns nothing.
func (c *Claims) Of(ctx context.Context, p *pass.Pass) map[string]string {
	waits := slices.ContainsFunc(p.Runners, func(r *roster.Runner) bool {
		return r.Reason == v1alpha1.ReasonVolumeUnbound && !r.Ended() && !r.Deleting
	})
	m := c.memories.Of(p.Set.UID)
	if !waits {
		m.said = nil
		return nil
	}
	if p.Now.Before(m.askAt) {
		p.RequeueAt(m.askAt)
		return m.said
	}
	m.askAt, m.said = p.Now.Add(interval), map[string]string{}
	p.RequeueAt(m.askAt)
	latest := map[string]time.Time{}
	found, err := kube.EventsOf(ctx, c.reader, p.Set.Namespace, reasons)
	if err != nil {
		log.FromContext(ctx).Error(err, "Can't list Events about claims, asking again")
	}
	for i := range found {
		event := &found[i]
		pod, ours := podOf(event, p.Runners)
		if _, at := kube.SaidAt(event); ours && !at.Before(latest[pod]) {
			latest[pod] = at
			m.said[pod] = event.InvolvedObject.Name + ": " + event.Reason + ": " + report.Abridged(event.Message)
		}
	}
	return m.said
}

// podOf returns the runner whose pod has the claim that an Event is about. The claim of a generic ephemeral volume is
// named after pod and volume, and belongs to the pod.
func podOf(event *corev1.Event, runners []*roster.Runner) (pod string, ours bool) {
	if event.InvolvedObject.Kind != "PersistentVolumeClaim" {
		return "", false
	}
	for _, runner := range runners {
		if runner.Reason == v1alpha1.ReasonVolumeUnbound && strings.HasPrefix(event.InvolvedObject.Name, runner.Name+"-") {
			return runner.Name, true
		}
	}
	return "", false
}
