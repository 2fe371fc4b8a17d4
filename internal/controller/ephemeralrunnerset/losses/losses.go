// Package losses counts the lost jobs of a runner set, each a single time, and tells about them. Whether a job was lost is
// decided in the runner's own controller; whether it runs again, in the room authors. It acts in every pass, before all
// else.
package losses

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/setmetrics"
)

// A runner's status.lostCause is the record of a lost job. The set counts each such runner a single time: one patch,
// conditional on the resourceVersion that was seen, raises lostJobs and adds the runners to lostRunners. A runner's
// object doesn't go before that, so neither a restart nor a stale cache makes a job count twice or never.

// Lost jobs are counted every countInterval at most: each count is a write of the set's status.
const countInterval = time.Second

var jobsLost = setmetrics.Counter("jobs_lost_total",
	"Jobs that were lost, by cause: their pods ended before GitHub had a result from the runner.", "cause")

// Options are what losses are counted with.
type Options struct {
	// Client reads from the manager's cache and writes to the API server.
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// Losses counts the lost jobs of sets.
type Losses struct {
	options  Options
	teller   teller
	memories pass.Memories[memory]
}

// memory is what is remembered of one set.
type memory struct {
	// At countedAt lost jobs were last counted.
	countedAt time.Time
	// told are the runners whose lost jobs have their Events.
	told sets.Set[string]
}

// New returns Losses that remember no set.
func New(options Options) *Losses {
	return &Losses{options: options, teller: teller{options.Client, options.Recorder}}
}

// Begin makes the series of a scale set: the rise from no series to 1 would be none to Prometheus.
func Begin(scaleSet types.NamespacedName) {
	for _, cause := range v1alpha1.LostCauses {
		setmetrics.Begin(jobsLost, scaleSet, string(cause))
	}
}

// Forget drops what is remembered of a set that is gone.
func (l *Losses) Forget(set types.UID) { l.memories.Forget(set) }

// Count counts the lost jobs that have not been counted yet, and then tells them by metric and Event. The count
// goes on from the AutoscalingRunnerSet's, which outlives a runner set.
func (l *Losses) Count(ctx context.Context, p *pass.Pass) error {
	set, m := p.Set, l.memories.Of(p.Set.UID)
	counted := sets.New(set.Status.LostRunners...)
	var lost []*roster.Runner
	var still []types.UID
	for _, r := range p.Runners {
		switch {
		case counted.Has(r.UID):
			still = append(still, r.UID)
		case r.Lost():
			lost = append(lost, r)
		}
	}
	if len(lost) == 0 && len(still) == len(set.Status.LostRunners) {
		return l.tell(ctx, p, m, 0)
	}
	if due := m.countedAt.Add(countInterval); p.Now.Before(due) {
		p.RequeueAt(due)
		return nil
	}
	if p.OriginErr != nil {
		return p.OriginErr
	}
	before := set.DeepCopy()
	set.Status.LostJobs += len(lost)
	if p.Origin != nil {
		set.Status.LostJobs = max(before.Status.LostJobs, p.Origin.Status.LostJobs) + len(lost)
	}
	for _, r := range lost {
		still = append(still, r.UID)
	}
	set.Status.LostRunners = still
	if err := l.teller.note(ctx, p, lost); err != nil {
		before.DeepCopyInto(set)
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := l.options.Client.Status().Patch(ctx, set, patch); err != nil {
		before.DeepCopyInto(set)
		p.RequeueAt(p.Now.Add(countInterval))
		if kube.IgnoreOvertaken(err) == nil {
			return nil
		}
		return fmt.Errorf("count lost jobs: %w", err)
	}
	m.countedAt = l.options.Clock.Now()
	for _, r := range lost {
		jobsLost.WithLabelValues(p.ScaleSet.Name, p.ScaleSet.Namespace, string(r.LostJob.Cause)).Inc()
	}
	return l.tell(ctx, p, m, len(lost))
}

// tell makes the Events that the set's losses do not have yet, of which so many were lost in this pass.
func (l *Losses) tell(ctx context.Context, p *pass.Pass, m *memory, lost int) error {
	told, err := l.teller.tell(ctx, p, m.told, lost)
	if err == nil {
		m.told = told
	}
	return err
}
