// Package calls says how far a call about a runner has come, and why it failed, in the terms that decide what follows. launch and
// deregister make the calls, rules decides with what is said here.
package calls

import (
	"context"
	"errors"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/reconcile"
)

const (
	// MinRetryAfter is the pause after the first failed call. It doubles with every further failure, up to MaxRetryAfter. By
	// then the client itself has repeated the call for 30 s. MaxAwayRetryAfter replaces it while the API server is away: its
	// return must be noticed within seconds, because a job waits.
	MinRetryAfter     = time.Second
	MaxRetryAfter     = time.Minute
	MaxAwayRetryAfter = 10 * time.Second
	// BusyRetryAfter is the pause after GitHub has refused to remove a runner because it has a job.
	BusyRetryAfter = 30 * time.Second
)

// GitHub is the part of the Actions service that is asked about one runner.
type GitHub interface {
	// GenerateJITConfig registers a runner. It fails with actions.ErrRunnerExists if the name is taken.
	GenerateJITConfig(ctx context.Context, scaleSetID int, request actions.JITConfigRequest) (*actions.JITConfig, error)
	// GetRunnerByName fails with actions.ErrRunnerNotFound if GitHub has no runner of that name.
	GetRunnerByName(ctx context.Context, name string) (*actions.RunnerReference, error)
	// RemoveRunner fails with actions.ErrJobStillRunning if the runner has a job. It succeeds if GitHub no longer has the
	// runner, but fails with actions.ErrRunnerNotFound if that answer may have come from a proxy or gateway in between.
	RemoveRunner(ctx context.Context, id int) error
}

// Key identifies a runner: by the name of its object, so that it can be reconciled again, and by UID, so that a later object
// of the same name is not mistaken for it.
type Key struct {
	types.NamespacedName
	UID types.UID
}

// KeyOf returns the runner's key.
func KeyOf(runner *v1alpha1.EphemeralRunner) Key {
	return Key{types.NamespacedName{Namespace: runner.Namespace, Name: runner.Name}, runner.UID}
}

// GroupOf returns the group of the runner's calls in the pool: its scale set.
func GroupOf(runner *v1alpha1.EphemeralRunner) string { return kube.ScaleSetOf(runner).String() }

// WithLogger gives a call in the pool the same log values that controller-runtime and Reconcile give to a pass.
func WithLogger(ctx context.Context, runner *v1alpha1.EphemeralRunner) context.Context {
	values := append(LogValues(runner), "namespace", runner.Namespace, "name", runner.Name)
	return kube.WithScaleSetLogger(ctx, kube.ScaleSetOf(runner), values...)
}

// LogValues returns the log values of a runner's job, nil if it has no job.
func LogValues(runner *v1alpha1.EphemeralRunner) []any {
	if !runner.Status.HadJob() {
		return nil
	}
	return []any{"jobID", JobID(&runner.Status)}
}

// JobID returns GitHub's id of the job, or the number of its request if the server sends no id.
func JobID(status *v1alpha1.EphemeralRunnerStatus) string {
	if status.JobID == "" && status.JobRequestID != 0 {
		return strconv.FormatInt(status.JobRequestID, 10)
	}
	return status.JobID
}

// Progress is the state of a call.
type Progress struct {
	Known, Running bool
	Failure        *Failure  // nil if it succeeded or has not ended
	FinishedAt     time.Time // when it ended
	RetryAt        time.Time // when it may be repeated after a failure
}

// ProgressOf returns the state of a call in the pool; known says whether there was one.
func ProgressOf[R any](call pool.Call[R], known bool) Progress {
	p := Progress{Known: known, Running: call.Running(), FinishedAt: call.Finished}
	if call.Err == nil || p.Running {
		return p
	}
	if !errors.As(call.Err, &p.Failure) {
		p.Failure = &Failure{Reason: "CallFailed", Message: call.Err.Error()}
	}
	longest := MaxRetryAfter
	if p.Failure.Kind == Away {
		longest = MaxAwayRetryAfter
	}
	p.RetryAt = call.Finished.Add(reconcile.Backoff(MinRetryAfter, longest, call.Failures))
	if p.Busy() {
		p.RetryAt = call.Finished.Add(BusyRetryAfter)
	}
	p.RetryAt = kube.LaterOf(p.RetryAt, p.Failure.AllowedAt)
	return p
}

// Busy reports whether GitHub refused because the runner has a job.
func (p Progress) Busy() bool { return p.Failure != nil && p.Failure.Kind == Busy }

// Succeeded reports whether the call has ended without a failure.
func (p Progress) Succeeded() bool { return p.Known && !p.Running && p.Failure == nil }

// AskAgain reports whether to make the call now, and if not, when: zero if it is under way or has succeeded.
func (p Progress) AskAgain(now time.Time) (ask bool, at time.Time) {
	switch {
	case p.Running || p.Succeeded():
		return false, time.Time{}
	case now.Before(p.RetryAt):
		return false, p.RetryAt
	default:
		return true, time.Time{}
	}
}
