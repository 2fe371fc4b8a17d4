// Package runnerversions asks a set's GitHub every twelve hours which version of the runner it offers, with the set's own
// credentials, and says in the condition RunnerVersionExpires until when it takes the version that the set's image
// names. What GitHub has said is kept in the set's status, so that a restart asks nothing. Nothing else waits for it.
package runnerversions

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/runnerversion"
)

const (
	// interval is the time between two questions of a scope: an address, as the sets of a namespace reach it with one
	// Secret. GitHub releases a runner every few weeks.
	interval = 12 * time.Hour
	// retry is the pause after a question that got no answer. A refusal is an answer.
	retry = time.Hour
	// pollRunning is how often a set looks whether the question of another one with its scope is answered.
	pollRunning = 30 * time.Second
	// mostReleases are kept in a set's status.
	mostReleases = 16
)

// Options have what questions need from outside.
type Options struct {
	// REST returns the client for a set's credentials; nil asks nothing.
	REST func(context.Context, credentials.Reference) (*rest.Client, error)
	// Budget limits what is read with one credential.
	Budget *feedback.Budget
}

// Watcher asks for all sets. It is safe for concurrent use.
type Watcher struct {
	options Options
	wake    func(types.NamespacedName)
	calls   *pool.Calls[scope, offer]

	mu     sync.Mutex
	askers map[scope]types.NamespacedName
	// scopes are those of the sets that were observed, so that the answer for one that no set has any more is forgotten.
	scopes map[types.NamespacedName]scope
}

// scope is what shares an answer. Another namespace may reach the address by a way of its own, which may lie.
type scope struct{ namespace, url, secret string }

// offer is GitHub's answer.
type offer struct {
	newest   runnerversion.Version // zero if the credentials may not read it
	releases []runnerversion.Release
}

// New returns a watcher that has asked nothing. It asks in the pool, and wakes a set whose question has been answered.
func New(options Options, calls *pool.Pool, clk clock.PassiveClock, wake func(types.NamespacedName)) *Watcher {
	w := &Watcher{options: options, wake: wake, askers: map[scope]types.NamespacedName{},
		scopes: map[types.NamespacedName]scope{}}
	w.calls = pool.NewCalls[scope, offer](calls, clk, w.answered)
	return w
}

func (w *Watcher) answered(about scope) {
	w.mu.Lock()
	asker, waits := w.askers[about]
	delete(w.askers, about)
	w.mu.Unlock()
	if waits {
		w.wake(asker)
	}
}

// Forget forgets a set that is gone, and deletes its series.
func (w *Watcher) Forget(set types.NamespacedName) {
	w.move(set, scope{})
	endOfVersion.DeleteLabelValues(set.Name, set.Namespace)
}

// move remembers the scope that a set has now, none if that is empty.
func (w *Watcher) move(set types.NamespacedName, to scope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from, known := w.scopes[set]
	if known && from == to {
		return
	}
	if w.scopes[set] = to; to == (scope{}) {
		delete(w.scopes, set)
	}
	for _, used := range w.scopes {
		if used == from {
			return
		}
	}
	w.calls.Forget(from)
	delete(w.askers, from)
}

// Observe returns what is known at a set's address, nil if nothing is, and the condition about it, nil if there is
// nothing to say. It asks when that is due, with credentials that GitHub has accepted.
func (w *Watcher) Observe(
	set *v1alpha1.AutoscalingRunnerSet, now time.Time, requeue func(time.Time),
) (*v1alpha1.RunnerVersionStatus, *metav1.Condition) {
	if !set.DeletionTimestamp.IsZero() {
		w.Forget(client.ObjectKeyFromObject(set))
		return nil, nil
	}
	known := w.look(set, now, requeue)
	condition, next := Condition(set, known, now)
	requeue(next)
	return known, condition
}

func (w *Watcher) look(
	set *v1alpha1.AutoscalingRunnerSet, now time.Time, requeue func(time.Time),
) *v1alpha1.RunnerVersionStatus {
	known := set.Status.RunnerVersion
	if known != nil && known.URL != set.Spec.GitHubConfigUrl {
		known = nil
	}
	about := scope{set.Namespace, set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret}
	w.move(client.ObjectKeyFromObject(set), about)
	call, asked := w.calls.Last(about)
	if asked && !call.Running() && call.Err == nil &&
		(known == nil || known.CheckedAt.Time.Before(call.Finished.Truncate(time.Second))) {
		known = next(known, &call.Result, set.Spec.GitHubConfigUrl, call.Finished)
	}
	if w.options.REST == nil ||
		!meta.IsStatusConditionTrue(set.Status.Conditions, v1alpha1.ConditionCredentialsValid) {
		return known
	}
	if asked && call.Running() {
		requeue(now.Add(pollRunning))
		return known
	}
	due := dueAt(known, now)
	if asked && call.Err != nil {
		due = kube.LaterOf(due, actions.RetryAt(call.Err, call.Finished.Add(retry)))
	}
	if !now.Before(due) {
		w.ask(set, about)
		due = now.Add(pollRunning)
	}
	requeue(due)
	return known
}

// dueAt returns the time of the next question. It is now if the last one is dated in the future: the clock was set back.
func dueAt(known *v1alpha1.RunnerVersionStatus, now time.Time) time.Time {
	if known == nil || known.CheckedAt.After(now) {
		return now
	}
	return known.CheckedAt.Add(interval)
}

// ask asks in the pool, and wakes the set after that.
func (w *Watcher) ask(set *v1alpha1.AutoscalingRunnerSet, about scope) {
	reference, key := credentials.ForAutoscalingRunnerSet(set), client.ObjectKeyFromObject(set)
	w.mu.Lock()
	w.askers[about] = key
	w.mu.Unlock()
	w.calls.Go(key.String(), about, func(ctx context.Context) (offer, error) {
		github, err := w.options.REST(ctx, reference)
		if err != nil {
			return offer{}, err
		}
		return read(ctx, github, w.options.Budget)
	})
}

// read asks GitHub what it offers and, if this build doesn't know that version, when it was released. Whoever may not
// ask gets no answer, which is one: it is asked again after interval.
func read(ctx context.Context, github *rest.Client, budget *feedback.Budget) (found offer, err error) {
	if err := budget.SpendRead(github.Account(), github.Now()); err != nil {
		return offer{}, err
	}
	names, err := github.RunnerDownloads(ctx)
	if err != nil && !refused(err) {
		return offer{}, err
	}
	for _, name := range names {
		if v, ok := runnerversion.OfFile(name); ok && found.newest.Before(v) {
			found.newest = v
		}
	}
	if err == nil && !runnerversion.Newest().Version.Before(found.newest) {
		return found, nil
	}
	if err := budget.SpendRead(github.Account(), github.Now()); err != nil {
		return found, nil // the day is first seen, then
	}
	releases, err := github.RunnerReleases(ctx)
	if err != nil {
		return found, nil
	}
	for _, r := range releases {
		if v, ok := runnerversion.Parse(r.Tag); ok && runnerversion.Newest().Version.Before(v) && !r.PublishedAt.IsZero() {
			found.releases = append(found.releases, runnerversion.Release{Version: v, Published: r.PublishedAt})
		}
	}
	return found, nil
}

// refused reports whether GitHub has said that the credentials may not read this, or that there is no such thing, as
// older versions of GitHub Enterprise Server do.
func refused(err error) bool {
	answer, ok := errors.AsType[*actions.Error](err)
	return ok && (answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusNotFound ||
		answer.StatusCode == http.StatusUnauthorized) && actions.RetryAt(err, time.Time{}).IsZero()
}

// next returns what is known after an answer. A version that is still the newest keeps the time at which it was first
// seen, and releases that are no longer listed stay.
func next(before *v1alpha1.RunnerVersionStatus, found *offer, url string, at time.Time) *v1alpha1.RunnerVersionStatus {
	known := &v1alpha1.RunnerVersionStatus{URL: url, CheckedAt: metav1.NewTime(at)}
	if before != nil {
		known.Newest, known.NewestSince, known.Releases = before.Newest, before.NewestSince, before.Releases
	}
	if newest := found.newest.String(); !found.newest.IsZero() && newest != known.Newest {
		known.Newest, known.NewestSince = newest, &metav1.Time{Time: at}
	}
	if len(found.releases) > 0 {
		known.Releases = nil
	}
	for _, r := range found.releases[:min(len(found.releases), mostReleases)] {
		known.Releases = append(known.Releases, v1alpha1.RunnerRelease{Version: r.Version.String(),
			PublishedAt: metav1.NewTime(r.Published)})
	}
	return known
}
