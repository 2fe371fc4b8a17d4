package authors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/pass"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
)

// linkMemory is what is remembered of a set's links to logs.
type linkMemory struct {
	// listings are of the workflow runs that the set's runners have jobs of, by their numbers.
	listings map[int64]*listing
	// reading counts those that are being read. None is begun before listingsPausedUntil.
	reading             int
	listingsPausedUntil time.Time
}

// listing has the jobs of one run, which are read a single time.
type listing struct {
	last pool.Last[*feedback.Listing]
	// settled are the runners whose jobs it has, or has not, named.
	settled sets.Set[string]
}

// mostListings are read at a time.
const mostListings = 4

// Link finds out where the logs of jobs are that run, if the set's user wants that: GitHub is asked once for each
// workflow run, for as long as a runner of the set has a job of it.
func (a *Authors) Link(ctx context.Context, p *pass.Pass) error {
	m := a.memories.Of(p.Set.UID)
	if p.Origin.Spec.Feedback == nil || !p.Origin.Spec.Feedback.JobLinks {
		m.linkMemory = linkMemory{}
		return nil
	}
	known, errs := map[int64]*listing{}, []error(nil)
	m.noteListings()
	for _, r := range p.Runners {
		if r.Run == 0 {
			continue
		}
		of := known[r.Run]
		if of == nil {
			if of = m.listings[r.Run]; of == nil {
				of = &listing{settled: sets.New[string]()}
			}
			known[r.Run] = of
		}
		if !r.Linked && !r.Deleting && !of.settled.Has(r.Name) {
			errs = append(errs, a.link(ctx, p, m, r, of))
		}
	}
	m.listings = known
	return errors.Join(errs...)
}

// noteListings counts what is being read, and notes what every other read has to wait for.
func (m *memory) noteListings() {
	m.reading = 0
	for _, of := range m.listings {
		call, known := of.last.Get()
		switch {
		case known && call.Running():
			m.reading++
		case feedback.LacksPermission(call.Err):
			m.permissions.NoteLink(call.Err.Error(), call.Finished)
			m.listingsPausedUntil = kube.LaterOf(m.listingsPausedUntil, m.permissions.RetryLinksAt())
		case known && call.Err == nil:
			m.permissions.NoteLink("", call.Finished)
		}
		if spent, isSpent := errors.AsType[*feedback.SpentError](call.Err); isSpent {
			m.listingsPausedUntil = kube.LaterOf(m.listingsPausedUntil, spent.Until)
			of.last.Forget() // nothing was read
		}
		if limited, isLimited := errors.AsType[*actions.RateLimitedError](call.Err); isLimited {
			m.listingsPausedUntil = kube.LaterOf(m.listingsPausedUntil, limited.Until)
			of.last.Forget()
		}
	}
}

// link writes down where the log of a runner's job is, or asks GitHub.
func (a *Authors) link(ctx context.Context, p *pass.Pass, m *memory, r *roster.Runner, of *listing) error {
	call, asked := of.last.Get()
	switch {
	case asked && call.Running():
		return nil
	case asked && call.Err != nil: // the run's own page has to do
		of.settled.Insert(r.Name)
		return nil
	case !asked && p.Now.Before(m.listingsPausedUntil):
		p.RequeueAt(m.listingsPausedUntil)
		return nil
	case !asked && m.reading >= mostListings: // a pass follows when one of them ends
		return nil
	}
	runner := &v1alpha1.EphemeralRunner{}
	err := a.options.Client.Get(ctx, types.NamespacedName{Namespace: p.Set.Namespace, Name: r.Name}, runner)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if !asked {
		m.reading++
		a.list(ctx, p, feedback.Run{Repository: runner.Status.JobRepositoryName, ID: r.Run}, of)
		return nil
	}
	of.settled.Insert(r.Name)
	before, status := runner.DeepCopy(), &runner.Status
	queued := time.Time{}
	if status.Phases != nil && status.Phases.Queued != nil {
		queued = status.Phases.Queued.Time
	}
	if noteLog(status, call.Result.JobOf(r.Name, status.JobDisplayName, queued)); status.JobNumber == before.Status.JobNumber {
		return nil
	}
	if err := a.options.Client.Status().Patch(ctx, runner, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		of.settled.Delete(r.Name)
		return fmt.Errorf("write where the log of the job of runner %s is: %w", r.Name, err)
	}
	return nil
}

// list reads the jobs of a run in the pool, and wakes the set after that.
func (a *Authors) list(ctx context.Context, p *pass.Pass, run feedback.Run, of *listing) {
	reference, key, logger := credentials.ForEphemeralRunnerSet(p.Set), client.ObjectKeyFromObject(p.Set), log.FromContext(ctx)
	of.last.Go(a.options.Pool, a.options.Clock, p.ScaleSet.String(), func(ctx context.Context) (*feedback.Listing, error) {
		github, err := a.options.REST(ctx, reference)
		if err != nil {
			return nil, err
		}
		found, err := feedback.ListJobs(ctx, github, a.options.Budget, run)
		if _, isSpent := errors.AsType[*feedback.SpentError](err); err != nil && !isSpent {
			logger.Info("GitHub does not say where the logs of a run's jobs are; their links lead to the run", "run", run.ID, "cause",
				err.Error())
		}
		return found, err
	}, func() { a.options.Wake(key) })
}

// noteLog notes where GitHub has the log of a runner's job; of a job that GitHub has not named, and of one that is known,
// nothing.
func noteLog(status *v1alpha1.EphemeralRunnerStatus, job *rest.Job) {
	if job != nil && job.ID > 0 && status.JobNumber == 0 {
		status.JobNumber, status.JobAttempt = job.ID, max(0, job.Attempt)
	}
}
