package ephemeralrunnerset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/kube/report"
	"github.com/harrier-ci/harrier/internal/pool"
)

// A stray is a registration of the set on GitHub for which no runner exists. A restore of the cluster from a backup makes strays of
// all runners created since: objects and pods are gone, and GitHub keeps the registrations for a day. Nothing is asked until the
// listener reports that GitHub's figures show strays; then runners are listed every ten minutes, for all sets with the same
// credentials together: ten requests for 1,000 runners.
//
// A registration is removed if two lists, five minutes apart, say that it is offline, its name is one that only this scale set
// gives, the API server has no such runner, and GitHub counts it to the set's own id and no job on it. "Offline" keeps runners of a
// second cluster that uses the same scale set by mistake: they are online. At worst such a cluster loses the registration of a
// runner that has waited for a node all the time, and registers it again; it can't lose a job.
const (
	// strayConfirmedAfter is the time between two lists that must both have a stray. A runner's pod starts, and a connection that
	// was cut is made again, in less.
	strayConfirmedAfter = 5 * time.Minute
	// strayPeriod is the time between lists, but for the one that confirms the last.
	strayPeriod = 10 * time.Minute
	// strayListAge is how old a list may be that another set asked for. After a restore all sets ask at about the same time.
	strayListAge = time.Minute
	// strayRefusedPause follows after GitHub has refused the list: somebody has to change the credentials.
	strayRefusedPause = time.Hour
	// mostStraysRemoved bounds the calls of one list. The next one finds the others.
	mostStraysRemoved = 1000
)

// strays is what the controller remembers of the strays of one set. It starts anew with a new process, which costs five minutes.
type strays struct {
	// offlineSince says when the first list was made that had a stray, by the runner's name.
	offlineSince map[string]time.Time
	// listAt is when to list again, failures how many lists in a row have failed. refused is set if GitHub has refused the last.
	listAt   time.Time
	failures int
	refused  bool
	// removing are the strays whose removal was asked for. removed and busy are what became of those before, for one Event.
	removing      sets.Set[string]
	removed, busy []string
}

// strayCall identifies a call about a set's strays: the list, or the removal of one by its name.
type strayCall struct {
	set  types.NamespacedName
	name string
}

// strayAnswer is the result of a strayCall.
type strayAnswer struct {
	// found are the strays of a list, listedAt is when it was made.
	found    []string
	listedAt time.Time
	// outcome is what became of a stray that was to be removed.
	outcome answer
}

// removeStrays starts the next call about strays, if the listener reports any, and notes the answers that have come.
func (c *Controller) removeStrays(ctx context.Context, p *pass) {
	s, key, now := &p.state.strays, client.ObjectKeyFromObject(p.set), c.options.Clock.Now()
	if call, ended := c.strayAnswer(strayCall{set: key}); ended {
		c.noteStrayList(ctx, p, call)
	}
	for name := range s.removing {
		if call, ended := c.strayAnswer(strayCall{key, name}); ended {
			s.noteRemoval(name, call)
		}
	}
	if len(s.removing) == 0 {
		c.recordStrays(ctx, p)
	}
	if p.set.Status.Listener == nil || p.set.Status.Listener.StrayRegistrations == 0 {
		s.offlineSince = nil
		return
	}
	switch {
	case len(s.removing) > 0:
		return // the last answer brings another pass
	case now.Before(s.listAt):
		p.requeueBy(s.listAt)
		return
	}
	set := p.set.DeepCopy() // the calls outlast the pass
	c.strayCalls.Go(key.String(), strayCall{set: key}, func(ctx context.Context) (strayAnswer, error) { return c.listStrays(ctx, set) })
}

// strayAnswer returns a call that has ended, and forgets it.
func (c *Controller) strayAnswer(key strayCall) (call pool.Call[strayAnswer], ended bool) {
	call, known := c.strayCalls.Last(key)
	if !known || call.Running() {
		return call, false
	}
	c.strayCalls.Forget(key)
	return call, true
}

// listStrays returns which offline runners on GitHub have a name of the set's and no runner in the cluster. Runners are listed
// after registrations: a runner exists before it is registered.
func (c *Controller) listStrays(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (strayAnswer, error) {
	github, err := c.options.GitHub(ctx, credentials.ForEphemeralRunnerSet(set))
	if err != nil {
		return strayAnswer{}, fmt.Errorf("find registrations without a runner: %w", err)
	}
	offline, err := github.ListOfflineRunners(ctx, strayListAge)
	if err != nil {
		return strayAnswer{}, fmt.Errorf("find registrations without a runner: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	// By the namespace alone: whatever became of a runner's labels, it is none of the strays.
	var runners metav1.PartialObjectMetadataList
	runners.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("EphemeralRunnerList"))
	if err := c.options.Reader.List(ctx, &runners, client.InNamespace(set.Namespace)); err != nil {
		return strayAnswer{}, fmt.Errorf("list EphemeralRunners: %w", err)
	}
	existing := sets.New[string]()
	for i := range runners.Items {
		existing.Insert(runners.Items[i].Name)
	}
	return strayAnswer{found: straysAmong(offline.Names, set.Name, existing), listedAt: offline.ListedAt}, nil
}

// straysAmong returns the names that only the set gives and that are not those of existing runners. GitHub ignores the case of names.
func straysAmong(offline []string, runnerSet string, existing sets.Set[string]) []string {
	found := sets.New[string]()
	for _, name := range offline {
		if name = strings.ToLower(name); kube.IsRunnerName(runnerSet, name) && !existing.Has(name) {
			found.Insert(name)
		}
	}
	return sets.List(found)
}

// noteStrayList notes a list that has ended, and asks for the removal of the strays that it confirms.
func (c *Controller) noteStrayList(ctx context.Context, p *pass, call pool.Call[strayAnswer]) {
	s, now := &p.state.strays, c.options.Clock.Now()
	if call.Err != nil {
		c.noteStrayFailure(ctx, p, call.Err)
		return
	}
	s.failures, s.refused = 0, false
	set := p.set.DeepCopy() // the calls outlast the pass
	for _, name := range s.noteList(call.Result.found, call.Result.listedAt, now) {
		key := strayCall{client.ObjectKeyFromObject(set), name}
		s.removing.Insert(name)
		c.strayCalls.Go(key.set.String(), key, func(ctx context.Context) (strayAnswer, error) { return c.removeStray(ctx, set, name) })
	}
}

// noteStrayFailure plans the next list after one that failed. A refusal is said once, with what to do.
func (c *Controller) noteStrayFailure(ctx context.Context, p *pass, err error) {
	s, now := &p.state.strays, c.options.Clock.Now()
	s.failures++
	s.listAt = retryQuestionAt(err, s.failures, now)
	if !errors.Is(err, actions.ErrUnauthorized) {
		log.FromContext(ctx).Error(err, "Registrations without a runner could not be found, trying again", "at", s.listAt)
		return
	}
	s.listAt = now.Add(strayRefusedPause)
	if s.refused {
		return
	}
	s.refused = true
	report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Warning("StraysNotListed", "RemoveStrays", fmt.Sprintf(
		"GitHub counts registrations that no runner here accounts for, and does not let us list runners to find them: %v; "+
			"let the credentials read self-hosted runners, or remove offline runners named %s… by hand; GitHub removes them after a day",
		err, kube.RunnerPrefix(p.set.Name))))
}

// noteList notes the strays of a list, and returns those to remove: an earlier list, long enough before, had them too.
func (s *strays) noteList(found []string, listedAt, now time.Time) (confirmed []string) {
	before := s.offlineSince
	s.offlineSince, s.removing = map[string]time.Time{}, sets.New[string]()
	s.listAt = now.Add(strayPeriod)
	for _, name := range found {
		since, known := before[name]
		if !known {
			since = listedAt
		}
		s.offlineSince[name] = since
		due := since.Add(strayConfirmedAfter)
		switch {
		case listedAt.Before(due):
			s.listAt = kube.EarlierOf(s.listAt, kube.LaterOf(due, now.Add(strayListAge)))
		case len(confirmed) < mostStraysRemoved:
			confirmed = append(confirmed, name)
		default:
			s.listAt = now.Add(strayListAge)
		}
	}
	return confirmed
}

// removeStray asks GitHub to remove a stray, after a last look at whose it is.
func (c *Controller) removeStray(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, name string) (strayAnswer, error) {
	github, err := c.options.GitHub(ctx, credentials.ForEphemeralRunnerSet(set))
	if err != nil {
		return strayAnswer{}, fmt.Errorf("remove registration %s: %w", name, err)
	}
	registered, err := github.GetRunnerByName(ctx, name)
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return strayAnswer{outcome: answerMissing}, nil
	case err != nil:
		return strayAnswer{}, fmt.Errorf("remove registration %s: %w", name, err)
	case registered.RunnerScaleSetID != set.Spec.EphemeralRunnerSpec.RunnerScaleSetID:
		return strayAnswer{outcome: answerRegistered}, nil // another scale set's
	}
	outcome, err := removeRegistration(ctx, github, registered.ID, false)
	if err != nil {
		err = fmt.Errorf("remove registration %s: %w", name, err)
	}
	return strayAnswer{outcome: outcome}, err
}

// noteRemoval notes what became of a stray. If GitHub did not answer, the next list has it again.
func (s *strays) noteRemoval(name string, call pool.Call[strayAnswer]) {
	s.removing.Delete(name)
	switch {
	case call.Err != nil:
	case call.Result.outcome == answerBusy:
		s.busy = append(s.busy, name)
	case call.Result.outcome == answerRemoved:
		s.removed = append(s.removed, name)
		delete(s.offlineSince, name)
	}
}

// recordStrays says what became of strays, all of one list together.
func (c *Controller) recordStrays(ctx context.Context, p *pass) {
	s := &p.state.strays
	if len(s.removed) > 0 {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Normal("StraysRemoved", "RemoveStrays", fmt.Sprintf(
			"removed %s from GitHub: offline, and without a runner here, as after a restore of the cluster from a backup", registrations(s.removed))))
	}
	if len(s.busy) > 0 {
		report.RecordEvent(ctx, c.options.Recorder, p.set, nil, report.Warning("StrayHasJob", "RemoveStrays", fmt.Sprintf(
			"GitHub still counts a job as running on %s, offline and without a runner here, as after a restore of the cluster from a backup: "+
				"the job is lost, and GitHub fails it once it has not heard of the runner for some ten minutes; run it again on GitHub", registrations(s.busy))))
	}
	s.removed, s.busy = nil, nil
}

// registrations names up to five.
func registrations(names []string) string {
	const most = 5
	names = slices.Sorted(slices.Values(names))
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		return fmt.Sprintf("%d registrations (%s, …)", len(names), text)
	}
	if len(names) == 1 {
		return "registration " + text
	}
	return "registrations " + text
}

// forgetStrays drops the calls about a set's strays.
func (c *Controller) forgetStrays(key types.NamespacedName, s *strays) {
	c.strayCalls.Forget(strayCall{set: key})
	for name := range maps.Keys(s.removing) {
		c.strayCalls.Forget(strayCall{key, name})
	}
}
