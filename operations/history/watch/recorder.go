package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/prices"
	"github.com/harrier-ci/harrier/operations/history/watch/housekeeping"
	"github.com/harrier-ci/harrier/operations/history/watch/times"
)

const (
	// What happens within a second is written together: a commit waits for the disk.
	beatInterval = 10 * time.Second
	// sampleInterval is the precision of samples, and the age that sums may have.
	sampleInterval = time.Minute
	// absenceInterval is the interval of the search for runners that have vanished without a report.
	absenceInterval = 10 * time.Minute
	// A job that ended without a runner may be assigned again, which GitHub tells within seconds.
	gaveUpAfter    = time.Minute
	expireInterval = time.Hour
	// writeTimeout bounds a write to a database that does not answer, and lastTimeout the last one of the program.
	writeTimeout = 30 * time.Second
	lastTimeout  = 3 * time.Second
	// taskTimeout bounds a task. Those that do many things begin none of them in the second half of it.
	taskTimeout = 5 * time.Minute
	// maxBatch bounds a transaction.
	maxBatch = 500
	// MaxPending bounds the jobs that are not written yet, of about 1 KiB each: 42,000 jobs an hour are 7,000 in ten
	// minutes.
	MaxPending = 50_000
)

// The tasks of the recorder, in the words of its log and metrics.
const (
	taskWrite  = "write"
	taskSample = "sample"
	taskAbsent = "absent"
	taskAddUp  = "add up"
	taskFold   = "fold"
	taskExpire = "expire"
	taskBudget = "budget"
	taskChange = "changes"
)

var tasks = []string{taskWrite, taskSample, taskAbsent, taskAddUp, taskFold, taskExpire, taskBudget, taskChange}

// Cluster answers the recorder's questions about the objects that are watched.
type Cluster interface {
	// Samples returns what scale sets looked like in the minute that begins at a time.
	Samples(minute time.Time) []ledger.Sample
	// GaveUp returns the jobs that ended before a runner had them, as listeners tell of the last minutes.
	GaveUp() []ledger.Job
	// Runners returns the UIDs of all runners that exist.
	Runners() map[string]bool
	// NodeLabels returns the type of a node, empty if it has none, and the labels on which prices may depend; both are empty if
	// the node may not be read.
	NodeLabels(ctx context.Context, node string) (kind, labels string)
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
	// Metrics say what is spent of Budgets at Prices.
	Prices  prices.Rules
	Budgets []prices.Budget

	prepared sync.Once
	tasks    housekeeping.Tasks

	mu      sync.Mutex
	backlog *backlog
	// overflowed is the time since when there has been no room for reports, zero while there is room.
	overflowed time.Time
	// written are the jobs of existing runners as the ledger has them, so that only changes are written.
	written map[string]ledger.Job

	// sampled are the last samples that were written, by set, and minute is when that was; of the task that writes them.
	sampled map[string]ledger.Sample
	minute  time.Time
	// beat is when the last heartbeat was written; of the task that writes jobs.
	beat time.Time
}

// prepare makes the recorder ready. Whatever the tasks do, no task stops another one.
func (r *Recorder) prepare() {
	r.prepared.Do(func() {
		r.backlog, r.written = &backlog{most: r.MaxPending,
			jobs: map[string]map[string]ledger.Job{}, bytes: map[string]int{}, writing: map[string]bool{}}, map[string]ledger.Job{}
		r.tasks.Clock, r.tasks.Log = r.Clock, r.Log
		r.tasks.Failed = func(task string) {
			r.Metrics.TaskFailures.WithLabelValues(task).Inc()
			if task == taskWrite {
				r.Metrics.Failures.Inc()
			}
		}
		for _, task := range []housekeeping.Task{
			{Name: taskWrite, Timeout: taskTimeout, Vital: true, Do: r.writeAll},
			{Name: taskSample, Timeout: taskTimeout, Do: r.sample},
			{Name: taskAbsent, Every: absenceInterval, Timeout: taskTimeout, Do: r.absent},
			{Name: taskAddUp, Every: sampleInterval, Timeout: taskTimeout,
				Do: func(ctx context.Context, _ time.Time) error { return r.Ledger.AddUp(ctx) }},
			{Name: taskFold, Every: sampleInterval, Timeout: taskTimeout,
				Do: func(ctx context.Context, _ time.Time) error { return r.Ledger.Fold(ctx) }},
			{Name: taskExpire, Every: expireInterval, Timeout: taskTimeout,
				Do: r.expire},
			{Name: taskBudget, Every: budgetInterval, Timeout: taskTimeout, Do: r.budgets},
			{Name: taskChange, Every: changesInterval, Timeout: taskTimeout, Do: r.changes},
		} {
			r.tasks.Add(task)
		}
	})
}

// expire deletes what is too old, by a clock that is proven.
func (r *Recorder) expire(ctx context.Context, now time.Time) error {
	_, err := r.Ledger.Expire(ctx, r.Name, now, r.Retention)
	if errors.Is(err, ledger.ErrClockUnproven) {
		r.Log.Info("Nothing is deleted because of its age for now: " + err.Error())
		return nil
	}
	return err
}

// Health returns an error if the ledger can't be written, or if a task has been stuck, for so long that a restart may
// help.
func (r *Recorder) Health() error {
	r.prepare()
	return r.tasks.Health()
}

// Report has a job written. Facts of an earlier report stay.
func (r *Recorder) Report(job ledger.Job) {
	r.prepare()
	now := r.Clock.Now()
	times.Believe(&job, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(job, now)
}

func (r *Recorder) add(job ledger.Job, now time.Time) {
	if dropped := r.backlog.add(job); dropped > 0 {
		r.Metrics.Dropped.Add(float64(dropped))
		if r.overflowed.IsZero() {
			r.overflowed = now
		}
	}
	r.Metrics.Pending.Set(float64(r.backlog.number()))
}

// Run writes until the context ends, and then a last time. The objects must have been read before.
func (r *Recorder) Run(ctx context.Context) {
	r.prepare()
	r.tasks.Run(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	err := r.Write(last)
	if err == nil {
		err = r.Ledger.Stop(last, r.Name, r.Clock.Now())
	}
	if err != nil {
		r.Log.Error(err, "The last jobs are not written; what still exists after the restart will be")
	}
}

// Step does what is due, and waits for its end.
func (r *Recorder) Step(ctx context.Context) {
	r.prepare()
	r.tasks.Step(ctx)
}

// writeAll writes jobs and, if that has succeeded, a heartbeat, which says that all that was seen until then is written.
func (r *Recorder) writeAll(ctx context.Context, now time.Time) error {
	if err := r.Write(ctx); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("write %d jobs, of which at most %d are kept in memory: %w", r.backlog.number(), r.MaxPending, err)
	}
	if passed := now.Sub(r.beat); passed < 0 || passed >= beatInterval {
		if err := r.Ledger.Beat(ctx, r.Name, now); err != nil {
			return fmt.Errorf("write a heartbeat: %w", err)
		}
		r.beat = now
	}
	r.Metrics.Written.Set(float64(now.Unix()))
	return nil
}

// Write writes all jobs that were reported and that the ledger does not know yet.
func (r *Recorder) Write(ctx context.Context) error {
	r.prepare()
	for {
		batch, more := r.batch()
		if !more {
			return r.writeOverflow(ctx)
		}
		if len(batch) == 0 {
			continue
		}
		for i := range batch {
			if batch[i].Node != "" && batch[i].NodeLabels == "" {
				batch[i].NodeType, batch[i].NodeLabels = r.Cluster.NodeLabels(ctx, batch[i].Node)
			}
		}
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		err := r.Ledger.Put(limited, batch)
		cancel()
		r.wrote(batch, err == nil)
		if err != nil {
			return err
		}
	}
}

// batch takes jobs out of those that wait, as far as the ledger doesn't have them as they are. It returns false if none
// waits.
func (r *Recorder) batch() (batch []ledger.Job, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.backlog.take(maxBatch)
	for i := range waiting {
		if was, known := r.written[waiting[i].RunnerUID]; known && ledger.Same(ledger.Fill(waiting[i], was), was) {
			delete(r.backlog.writing, waiting[i].RunnerUID)
			continue
		}
		batch = append(batch, waiting[i])
	}
	r.Metrics.Pending.Set(float64(r.backlog.number()))
	return batch, len(waiting) > 0
}

// wrote remembers jobs that are written, of runners that may be reported again, or takes back jobs that could not be.
// A report that came meanwhile is newer.
func (r *Recorder) wrote(batch []ledger.Job, succeeded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		job := batch[i]
		delete(r.backlog.writing, job.RunnerUID)
		if succeeded {
			r.written[job.RunnerUID] = ledger.Fill(job, r.written[job.RunnerUID])
			r.Metrics.Jobs.Inc()
			continue
		}
		if newer, waits := r.backlog.jobs[job.Namespace][job.RunnerUID]; waits {
			job = ledger.Fill(newer, job)
		}
		r.add(job, r.Clock.Now())
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

// sample writes, when a minute is over, a sample of each scale set that has changed, and of each other one before readers
// miss one. When it begins, and after a jump of the clock, it writes what there is of the minute that has begun.
func (r *Recorder) sample(ctx context.Context, now time.Time) error {
	minute := now.UTC().Truncate(sampleInterval)
	if minute.Equal(r.minute) {
		return nil
	}
	for _, job := range r.Cluster.GaveUp() {
		if now.Sub(job.Finished) >= gaveUpAfter {
			r.Report(job)
		}
	}
	about := minute
	if !r.minute.IsZero() && minute.Sub(r.minute) == sampleInterval {
		about = r.minute
	}
	var changed []ledger.Sample
	latest := map[string]ledger.Sample{}
	for _, sample := range fewOfEach(r.Cluster.Samples(about)) {
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
	r.sampled, r.minute = latest, minute
	return nil
}

// fewOfEach returns the samples of the busiest sets of each namespace, up to maxSets: whoever may create sets in one
// makes up as many as he likes.
func fewOfEach(samples []ledger.Sample) []ledger.Sample {
	slices.SortStableFunc(samples, func(a, b ledger.Sample) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(b.Running+b.Idle+b.Waiting,
			a.Running+a.Idle+a.Waiting), cmp.Compare(a.Set, b.Set))
	})
	of := map[string]int{}
	return slices.DeleteFunc(samples, func(s ledger.Sample) bool {
		of[s.Namespace]++
		return of[s.Namespace] > ledger.MaxSets
	})
}

// absent takes over the jobs of runners that exist from a ledger that looks no longer, writes that runners are gone which
// have vanished while nobody looked, and forgets runners of which nothing more is reported. A runner counts as gone that existed neither before the ledger was asked nor after: jobs are written
// and runners go meanwhile.
func (r *Recorder) absent(ctx context.Context, now time.Time) error {
	before := r.Cluster.Runners()
	running, err := r.Ledger.Running(ctx, r.Name, r.Namespace)
	if err != nil {
		return fmt.Errorf("read which jobs run: %w", err)
	}
	orphans, err := r.Ledger.Orphans(ctx, r.Name, now)
	if err != nil {
		return fmt.Errorf("read which jobs were another ledger's: %w", err)
	}
	after := r.Cluster.Runners()
	orphans = slices.DeleteFunc(orphans, func(uid string) bool { return !before[uid] || !after[uid] })
	if err := r.Ledger.Adopt(ctx, orphans); err != nil {
		return err
	}
	r.mu.Lock()
	reported := maps.Clone(r.backlog.writing)
	for _, jobs := range r.backlog.jobs {
		for uid := range jobs {
			reported[uid] = true
		}
	}
	gone := slices.DeleteFunc(running, func(uid string) bool { return before[uid] || after[uid] || reported[uid] })
	maps.DeleteFunc(r.written, func(uid string, _ ledger.Job) bool { return !before[uid] && !after[uid] })
	r.mu.Unlock()
	return r.Ledger.Gone(ctx, gone, now)
}
