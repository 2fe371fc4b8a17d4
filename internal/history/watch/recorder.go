package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/history/ledger"
)

const (
	// What happens within writeInterval is written together: a commit waits for the disk.
	writeInterval = time.Second
	// writeBackoff and maxWriteBackoff are the pauses after a write that failed.
	writeBackoff    = time.Second
	maxWriteBackoff = 30 * time.Second
	beatInterval    = 10 * time.Second
	// sampleInterval is the precision of samples, and the age that sums may have.
	sampleInterval = time.Minute
	// absenceInterval is the interval of the search for runners that have vanished without a report.
	absenceInterval = 10 * time.Minute
	expireInterval  = time.Hour
	// writeTimeout bounds a write to a database that does not answer.
	writeTimeout = 30 * time.Second
	// maxBatch bounds a transaction.
	maxBatch = 500
	// MaxPending bounds the jobs that are not written yet, of about 1 KiB each: 42,000 jobs an hour are 7,000 in ten
	// minutes.
	MaxPending = 50_000
)

// Cluster answers the recorder's questions about the objects that are watched.
type Cluster interface {
	// Samples returns the states of scale sets.
	Samples(now time.Time) []ledger.Sample
	// Runners returns the UIDs of all runners that exist.
	Runners() map[string]bool
	// NodeType returns the type of a node, empty if it has none or if the node may not be read.
	NodeType(ctx context.Context, node string) string
}

// Recorder writes reports into the ledger, and keeps them while the ledger can't be written. Report may be called at
// any time; all else is for Run.
type Recorder struct {
	Ledger *ledger.Ledger
	// Name is the cluster's; Namespace is empty if all are watched.
	Name, Namespace string
	Cluster         Cluster
	Clock           clock.WithTicker
	Log             logr.Logger
	Metrics         *Metrics
	// Jobs are kept for Retention.
	Retention time.Duration
	// MaxPending bounds the jobs that are not written yet.
	MaxPending int

	mu      sync.Mutex
	pending map[string]ledger.Job
	// overflowed is the time since when there has been no room for reports, zero while there is room.
	overflowed time.Time

	// written are the jobs of existing runners as the ledger has them, so that only changes are written.
	written map[string]ledger.Job
	// sampled are the last samples that were written, by set.
	sampled map[string]ledger.Sample

	due     map[string]time.Time
	backoff time.Duration
}

// Report has a job written. Facts of an earlier report stay.
func (r *Recorder) Report(job ledger.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = map[string]ledger.Job{}
	}
	earlier, waits := r.pending[job.RunnerUID]
	if !waits && len(r.pending) >= r.MaxPending {
		r.Metrics.Dropped.Inc()
		if r.overflowed.IsZero() {
			r.overflowed = r.Clock.Now()
		}
		return
	}
	r.pending[job.RunnerUID] = ledger.Fill(job, earlier)
	r.Metrics.Pending.Set(float64(len(r.pending)))
}

// Run writes until the context ends, and then a last time. The objects must have been read before.
func (r *Recorder) Run(ctx context.Context) {
	ticker := r.Clock.NewTicker(writeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout/10)
			defer cancel()
			if err := r.Write(last); err != nil {
				r.Log.Error(err, "The last jobs are not written; what still exists after the restart will be")
			}
			return
		case <-ticker.C():
			r.Step(ctx)
		}
	}
}

// Step does what is due: it writes jobs and, if that succeeded, all else.
func (r *Recorder) Step(ctx context.Context) {
	now := r.Clock.Now()
	if r.due == nil {
		r.due = map[string]time.Time{}
	}
	if now.Before(r.due["retry"]) && r.due["retry"].Sub(now) <= maxWriteBackoff { // the clock may have been set back
		return
	}
	if err := r.allDue(ctx, now); err != nil && ctx.Err() == nil {
		r.backoff = min(maxWriteBackoff, max(writeBackoff, 2*r.backoff))
		r.due["retry"] = now.Add(r.backoff)
		r.Metrics.Failures.Inc()
		r.Log.Error(err, "The ledger can't be written; jobs are kept in memory and written later",
			"retryAfter", r.backoff.String(), "jobs", r.waiting(), "atMost", r.MaxPending)
		return
	}
	r.backoff = 0
	r.Metrics.Written.Set(float64(now.Unix()))
}

func (r *Recorder) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

func (r *Recorder) allDue(ctx context.Context, now time.Time) error {
	if err := r.Write(ctx); err != nil {
		return err
	}
	for _, task := range []struct {
		name     string
		interval time.Duration
		do       func(context.Context, time.Time) error
	}{
		// A heartbeat says that all that was seen until then is written, so it comes after that.
		{"beat", beatInterval, func(ctx context.Context, now time.Time) error { return r.Ledger.Beat(ctx, r.Name, now) }},
		{"sample", sampleInterval, r.sample},
		{"absent", absenceInterval, r.absent},
		{"add up", sampleInterval, func(ctx context.Context, _ time.Time) error { return r.Ledger.AddUp(ctx) }},
		{"expire", expireInterval, func(ctx context.Context, now time.Time) error {
			_, err := r.Ledger.Expire(ctx, now, r.Retention)
			return err
		}},
	} {
		last := r.due[task.name]
		if passed := now.Sub(last); passed < task.interval && passed >= 0 {
			continue
		}
		if err := task.do(ctx, now); err != nil {
			return fmt.Errorf("%s: %w", task.name, err)
		}
		r.due[task.name] = now
	}
	return nil
}

// Write writes all jobs that were reported and that the ledger does not know yet.
func (r *Recorder) Write(ctx context.Context) error {
	for {
		batch := r.batch()
		if len(batch) == 0 {
			return r.writeOverflow(ctx)
		}
		for i := range batch {
			if batch[i].Node != "" && batch[i].NodeType == "" {
				batch[i].NodeType = r.Cluster.NodeType(ctx, batch[i].Node)
			}
		}
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		err := r.Ledger.Put(limited, batch)
		cancel()
		if err != nil {
			for i := range batch {
				r.restore(batch[i])
			}
			return err
		}
		r.remember(batch)
	}
}

// batch takes jobs out of those that wait.
func (r *Recorder) batch() (batch []ledger.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, job := range r.pending {
		if len(batch) == maxBatch {
			break
		}
		delete(r.pending, uid)
		if was, known := r.written[uid]; !known || !ledger.Same(ledger.Fill(job, was), was) {
			batch = append(batch, job)
		}
	}
	r.Metrics.Pending.Set(float64(len(r.pending)))
	return batch
}

// restore takes back a job that could not be written, unless there is no room left. A report that came meanwhile is
// newer.
func (r *Recorder) restore(job ledger.Job) {
	r.mu.Lock()
	newer, waits := r.pending[job.RunnerUID]
	r.mu.Unlock()
	if waits {
		job = ledger.Fill(newer, job)
	}
	r.Report(job)
}

// remember keeps the written jobs of runners that may be reported again.
func (r *Recorder) remember(batch []ledger.Job) {
	if r.written == nil {
		r.written = map[string]ledger.Job{}
	}
	for i := range batch {
		r.written[batch[i].RunnerUID] = ledger.Fill(batch[i], r.written[batch[i].RunnerUID])
		r.Metrics.Jobs.Inc()
	}
}

func (r *Recorder) writeOverflow(ctx context.Context) error {
	r.mu.Lock()
	since := r.overflowed
	r.mu.Unlock()
	if since.IsZero() {
		return nil
	}
	gap := ledger.Gap{Cluster: r.Name, From: since, To: r.Clock.Now(), Reason: ledger.GapOverflow}
	if err := r.Ledger.PutGap(ctx, gap); err != nil {
		return err
	}
	r.mu.Lock()
	r.overflowed = time.Time{}
	r.mu.Unlock()
	return nil
}

// sample writes a sample of each scale set that has changed, and of each other one before readers miss one.
func (r *Recorder) sample(ctx context.Context, now time.Time) error {
	var changed []ledger.Sample
	latest := map[string]ledger.Sample{}
	for _, sample := range r.Cluster.Samples(now) {
		key := sample.Namespace + "/" + sample.Set
		last, known := r.sampled[key]
		if known && sample.Looks(&last) && sample.At.Sub(last.At) < ledger.SampleInterval-sampleInterval &&
			!sample.At.Before(last.At) {
			latest[key] = last
			continue
		}
		changed = append(changed, sample)
		latest[key] = sample
	}
	if err := r.Ledger.PutSamples(ctx, changed); err != nil {
		return err
	}
	r.sampled = latest
	return nil
}

// absent writes that runners are gone which have vanished while nobody looked, and forgets runners of which nothing
// more is reported.
func (r *Recorder) absent(ctx context.Context, now time.Time) error {
	existing := r.Cluster.Runners()
	running, err := r.Ledger.Running(ctx, r.Name, r.Namespace)
	if err != nil {
		return fmt.Errorf("read which jobs run: %w", err)
	}
	r.mu.Lock()
	gone := slices.DeleteFunc(running, func(uid string) bool {
		_, waits := r.pending[uid]
		return waits || existing[uid]
	})
	r.mu.Unlock()
	maps.DeleteFunc(r.written, func(uid string, _ ledger.Job) bool { return !existing[uid] })
	return r.Ledger.Gone(ctx, gone, now)
}
