package scaleset

import (
	"context"
	"errors"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/pool"
)

// DeregisterTimeout ends the attempts to delete a scale set on GitHub: it is left there, an Event says so, and the
// finalizer is removed. The timeout outlasts a restart of GitHub Enterprise Server's services
// and most incidents, and still lets a `kubectl delete namespace` end while somebody watches. GitHub itself deletes
// scale sets that are unused for days.
const DeregisterTimeout = 5 * time.Minute

// Target is a scale set to be deleted.
type Target struct {
	Registration v1alpha1.ScaleSetRegistration
	// References say how GitHub may be reached; they are tried in turn.
	References []credentials.Reference
	// Listener is the one whose credentials may be used, too, empty if there is none.
	Listener client.ObjectKey
}

// Deletion is the result of DeleteAll.
type Deletion struct {
	// asked are all registrations that the call was to delete, and failures has the errors of those that were not deleted.
	asked    []v1alpha1.ScaleSetRegistration
	failures map[v1alpha1.ScaleSetRegistration]error
}

// DeleteAll deletes the scale sets, each whether the others fail or not. The error has all failures.
func DeleteAll(ctx context.Context, connections Connections, targets []Target) (Deletion, error) {
	result := Deletion{failures: map[v1alpha1.ScaleSetRegistration]error{}}
	var errs []error
	for _, target := range targets {
		result.asked = append(result.asked, target.Registration)
		if err := target.remove(ctx, connections); err != nil {
			errs, result.failures[target.Registration] = append(errs, err), err
		}
	}
	return result, errors.Join(errs...)
}

// errNoCredentials is returned for a registration on a server for which the set no longer has credentials.
var errNoCredentials = errors.New("the credentials that it was registered with are not known, and no others are for " +
	"that server")

// ErrListenedTo is returned for a scale set that somebody else listens to, such as another cluster that was restored
// from the same backup. The set's own listener has stopped; if it was killed, its session ends within sessionLifetime.
var ErrListenedTo = errors.New("somebody else listens to it, such as the same scale set in another cluster")

// GitHub was seen to refuse a session 60 s after the last sign of life of another, and to grant it after 91 s. A scale
// set whose session lasts longer is listened to.
const sessionLifetime = 2 * time.Minute

// sessionRetry is the pause between looks whether a session has ended.
const sessionRetry = 10 * time.Second

// remove tries the references in turn. It returns the first error, or a later one if the first says that the
// credentials are unusable: those won't come back, while the later ones may be refused only for now.
func (t Target) remove(ctx context.Context, connections Connections) error {
	failure := errNoCredentials
	for i, reference := range t.References {
		err := withAnyCredentials(ctx, connections, reference, t.Listener, func(github GitHub) error {
			listenedTo, err := github.HasSession(ctx, t.Registration.ID)
			if err != nil {
				return err
			}
			if listenedTo {
				return ErrListenedTo
			}
			return github.DeleteRunnerScaleSet(ctx, t.Registration.ID)
		})
		if err == nil {
			return nil
		}
		if i == 0 || credentials.Unusable(failure) {
			failure = err
		}
	}
	return failure
}

// Covers reports whether GitHub was asked to delete all of the registrations.
func (d Deletion) Covers(registrations []v1alpha1.ScaleSetRegistration) bool {
	return !slices.ContainsFunc(registrations,
		func(r v1alpha1.ScaleSetRegistration) bool { return !slices.Contains(d.asked, r) })
}

// Progress is the progress of the deletion of scale sets.
type Progress struct {
	// Over is set when nothing more will be tried. Left are the scale sets that GitHub may still have then. Cause is
	// the error of the last call, nil if there was none or it did not fail.
	Over    bool
	Deleted []v1alpha1.ScaleSetRegistration
	Left    []v1alpha1.ScaleSetRegistration
	Cause   error
	// It is tried again after RetryAfter. Zero means immediately, or that a call runs, whose end brings the next pass.
	RetryAfter time.Duration
}

// ProgressOf returns the progress according to the last call, which covered all of these registrations if it has ended.
// A running call is awaited, because it has its own timeout. Unusable credentials end the deregistration only if the
// set is being deleted; otherwise somebody may correct them.
func ProgressOf(
	last pool.Call[Deletion], known bool, registrations []v1alpha1.ScaleSetRegistration, startedAt, now time.Time,
	deleting bool,
) Progress {
	if !known || last.Running() {
		return Progress{}
	}
	failures := last.Result.failures
	left := slices.DeleteFunc(slices.Clone(registrations),
		func(r v1alpha1.ScaleSetRegistration) bool { return failures[r] == nil })
	deadline := startedAt.Add(DeregisterTimeout)
	hopeful := slices.ContainsFunc(left, func(r v1alpha1.ScaleSetRegistration) bool {
		failure := failures[r]
		hopeless := credentials.Gone(failure) ||
			(deleting && (credentials.Unusable(failure) || errors.Is(failure, errNoCredentials))) ||
			(errors.Is(failure, ErrListenedTo) && last.Started.Sub(startedAt) >= sessionLifetime)
		return !hopeless || apiaccess.MayPass(failure, startedAt, now)
	})
	if !hopeful || !now.Before(deadline) {
		deleted := slices.DeleteFunc(slices.Clone(last.Result.asked),
			func(r v1alpha1.ScaleSetRegistration) bool { return failures[r] != nil })
		return Progress{Over: true, Deleted: deleted, Left: left, Cause: last.Err}
	}
	retryAt := RetryAt(last)
	if errors.Is(last.Err, ErrListenedTo) { // the session of a listener that was killed ends at a time that nobody tells
		retryAt = last.Finished.Add(sessionRetry)
	}
	return Progress{Cause: last.Err, RetryAfter: max(min(retryAt.Sub(now), deadline.Sub(now)), 0)}
}
