// Package strays takes care of what a restore of the cluster from a backup leaves on GitHub: registrations that no runner
// has, which are removed, and jobs on runners that don't exist here, which are told. The listener reports both in the
// set's status.
package strays

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// A job's end is no news any more after unknownJobsAge. A manager that has just started tells nothing older.
const unknownJobsAge = 10 * time.Minute

// Strays takes care of the strays of sets.
type Strays struct {
	asking   registrations.Options
	strays   *registrations.Strays
	memories pass.Memories[memory]
}

// memory is what is remembered of one set.
type memory struct {
	set           types.NamespacedName
	registrations registrations.StrayMemory
	// recordedAt is the end of the last job for which an Event was recorded because it ran on an unknown runner.
	recordedAt time.Time
}

// New returns Strays that remember no set and ask GitHub with the given options.
func New(asking registrations.Options) *Strays {
	return &Strays{asking: asking, strays: registrations.NewStrays(asking)}
}

// Forget drops what is remembered of a set that is gone.
func (s *Strays) Forget(set types.UID) {
	m := s.memories.Of(set)
	s.strays.Forget(m.set, &m.registrations)
	s.memories.Forget(set)
}

// Remove has registrations removed that have no runner, and tells about jobs that ran on such.
func (s *Strays) Remove(ctx context.Context, p *pass.Pass) error {
	m := s.memories.Of(p.Set.UID)
	m.set = client.ObjectKeyFromObject(p.Set)
	p.RequeueAt(s.strays.Remove(ctx, p.Set, &m.registrations))
	s.recordUnknownJobs(ctx, p, m)
	return nil
}

// recordUnknownJobs records an Event about jobs that ended without success on runners that don't exist, if the listener
// has reported another one.
func (s *Strays) recordUnknownJobs(ctx context.Context, p *pass.Pass, m *memory) {
	listener := p.Set.Status.Listener
	if listener == nil || listener.UnknownRunnerJobs == nil {
		return
	}
	jobs := listener.UnknownRunnerJobs
	if !jobs.LastAt.After(m.recordedAt) || p.Now.Sub(jobs.LastAt.Time) > unknownJobsAge {
		return
	}
	m.recordedAt = jobs.LastAt.Time
	report.RecordEvent(ctx, s.asking.Recorder, p.Set, nil,
		report.Warning("UnknownRunnerJob", "ReportJobs", fmt.Sprintf(
			"%d jobs since the listener started have ended without success on runners that don't exist here; the "+
				"last: %s; if the cluster was restored from a backup, or the runner was deleted by force, the job "+
				"was lost with it: run it again on GitHub",
			jobs.Count, jobs.Last)))
}
