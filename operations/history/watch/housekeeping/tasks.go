// Package housekeeping runs the tasks of the ledger beside each other: each as often as it is due, with a deadline, and
// again after a pause if it has failed. None waits for another one, and none is begun a second time before its end. It
// also says whether the tasks get on, which is what the health of the ledger means.
package housekeeping

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// tick is the precision of intervals.
	tick = time.Second
	// minBackoff and maxBackoff are the pauses after failures.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// lastWait bounds the wait for tasks whose context has ended.
	lastWait = 5 * time.Second
	// Grace is how long a task may be late before it counts as stuck. A database is restarted, moved to another node or
	// given a larger disk meanwhile, and a restart of the ledger loses what is not written.
	Grace = 15 * time.Minute
)

// Task is done again and again.
type Task struct {
	Name string
	// Every is the interval; 0: each second.
	Every time.Duration
	// Timeout is when an attempt is ended.
	Timeout time.Duration
	// Vital is set if the ledger is of no use while the task fails, for any reason. Any other task counts as stuck only
	// if it doesn't end, or not before its timeout: what fails otherwise would fail after a restart, too.
	Vital bool
	Do    func(ctx context.Context, now time.Time) error
}

// Tasks are those of a process.
type Tasks struct {
	Clock clock.WithTicker
	Log   logr.Logger
	// Failed is told of each failure.
	Failed func(task string)

	mu      sync.Mutex
	running sync.WaitGroup
	states  []*state
}

type state struct {
	Task
	busy bool
	// begun is the begin of the last attempt that succeeded, good the end of the last one that the health counts.
	begun, good time.Time
	backoff     time.Duration
	retry       time.Time
}

// Add adds a task, which is due at once.
func (t *Tasks) Add(task Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states = append(t.states, &state{Task: task, good: t.Clock.Now()})
}

// Run does what is due until the context ends, and waits for tasks that are under way, but not for one that doesn't end.
func (t *Tasks) Run(ctx context.Context) {
	ticker := t.Clock.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			ended := make(chan struct{})
			go func() { t.running.Wait(); close(ended) }()
			select {
			case <-ended:
			case <-t.Clock.After(lastWait):
			}
			return
		case <-ticker.C():
			t.begin(ctx)
		}
	}
}

// Step does what is due, and waits for all that is under way.
func (t *Tasks) Step(ctx context.Context) {
	t.begin(ctx)
	t.running.Wait()
}

// begin begins what is due.
func (t *Tasks) begin(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Clock.Now()
	for _, s := range t.states {
		if s.busy || !s.due(now) {
			continue
		}
		s.busy = true
		t.running.Go(func() { t.attempt(ctx, s, now) })
	}
}

// due reports whether a task is to be begun. The clock may have been set back.
func (s *state) due(now time.Time) bool {
	if pause := s.retry.Sub(now); pause > 0 && pause <= maxBackoff {
		return false
	}
	passed := now.Sub(s.begun)
	return s.begun.IsZero() || passed >= s.Every || passed < 0
}

func (t *Tasks) attempt(ctx context.Context, s *state, began time.Time) {
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	err := s.Do(limited, began)
	late := limited.Err() != nil
	cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	s.busy = false
	now := t.Clock.Now()
	if err == nil {
		s.begun, s.good, s.backoff, s.retry = began, now, 0, time.Time{}
		return
	}
	if ctx.Err() != nil {
		return // the program ends
	}
	if !s.Vital && !late && !errors.Is(err, context.DeadlineExceeded) {
		s.good = now
	}
	s.backoff = min(maxBackoff, max(minBackoff, 2*s.backoff))
	s.retry = now.Add(s.backoff)
	t.Failed(s.Name)
	t.Log.Error(err, "A task of the ledger has failed; it is tried again, and others go on", "task", s.Name,
		"retryAfter", s.backoff.String())
}

// Health returns an error that names a task which has been stuck for too long, nil if all get on.
func (t *Tasks) Health() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Clock.Now()
	for _, s := range t.states {
		if now.Before(s.good) {
			s.good = now // the clock was set back
		}
		if now.Sub(s.good) > s.Every+Grace {
			return fmt.Errorf("%s has not succeeded since %s; the log says why", s.Name,
				s.good.UTC().Format(time.RFC3339))
		}
	}
	return nil
}
