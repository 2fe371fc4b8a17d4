package registrations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// A stray is a registration of the set on GitHub for which no runner exists. A restore of the cluster from a backup
// makes strays of all runners created since: objects and pods are gone, and GitHub keeps the registrations for a day.
// Nothing is asked until the listener reports that GitHub's figures show strays; then runners are listed every ten
// minutes, for all sets with the same credentials together: ten requests for 1,000 runners.
//
// A registration is removed if two lists, five minutes apart, say that it is offline, its name is one that only this
// scale set gives, the API server has no such runner, and GitHub counts it to the set's own id and no job on it.
// "Offline" keeps runners of a second cluster that uses the same scale set by mistake: they are online. At worst such a
// cluster loses the registration of a runner that has waited for a node all the time, and registers it again; it can't
// lose a job.
const (
	// Two lists, strayGrace apart, must both have a stray. A runner's pod starts, and a connection that was cut is made
	// again, in less.
	strayGrace = 5 * time.Minute
	// Strays are listed every strayInterval, but for the list that confirms the last.
	strayInterval = 10 * time.Minute
	// A set uses a list that another set asked for if it is at most strayListAge old: after a restore all sets ask at
	// about the same time.
	strayListAge = time.Minute
	// After GitHub has refused the list the next one waits for strayRefusedBackoff: somebody has to change the
	// credentials.
	strayRefusedBackoff = time.Hour
	// mostStraysRemoved bounds the calls of one list. The next one finds the others.
	mostStraysRemoved = 1000
)

// Strays finds and removes the strays of sets.
type Strays struct {
	options Options
	calls   *pool.Calls[strayCall, strayAnswer]
}

// StrayMemory is the memory of one set's strays. It starts anew with a new process, which costs five minutes.
type StrayMemory struct {
	// offlineSince has the time of the first list that had a stray, by the runner's name.
	offlineSince map[string]time.Time
	// At listAt strays are listed again. failures counts the lists in a row that have failed. refused is set if GitHub
	// has refused the last.
	listAt   time.Time
	failures int
	refused  bool
	// removing are the strays whose removal was asked for. removed and busy count the earlier ones by their outcome,
	// for one Event.
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
	// found are the strays of a list that was made at listedAt.
	found    []string
	listedAt time.Time
	// outcome is GitHub's answer to the removal of a stray.
	outcome Answer
}

// NewStrays returns a search for strays that has not begun.
func NewStrays(options Options) *Strays {
	return &Strays{
		options,
		pool.NewCalls[strayCall, strayAnswer](options.Pool, options.Clock, func(call strayCall) {
			options.Wake(call.set)
		}),
	}
}

// Remove starts the next call about strays, if the set's listener reports any, and remembers the answers that have
// come. It returns the time at which to call it again without an answer, zero if there is no such time.
func (s *Strays) Remove(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, m *StrayMemory) (again time.Time) {
	key, now := client.ObjectKeyFromObject(set), s.options.Clock.Now()
	if call, ended := s.calls.Take(strayCall{set: key}); ended {
		s.takeList(ctx, set, m, call)
	}
	for name := range m.removing {
		if call, ended := s.calls.Take(strayCall{key, name}); ended {
			m.rememberRemoval(name, call)
		}
	}
	if len(m.removing) == 0 {
		s.record(ctx, set, m)
	}
	switch listener := set.Status.Listener; {
	case listener == nil || listener.StrayRegistrations == 0:
		m.offlineSince = nil
	case len(m.removing) > 0: // the last answer brings another pass
	case now.Before(m.listAt):
		return m.listAt
	default:
		set := set.DeepCopy() // the calls outlast the pass
		s.calls.Go(key.String(), strayCall{set: key}, func(ctx context.Context) (strayAnswer, error) {
			return s.list(ctx, set)
		})
	}
	return time.Time{}
}

// list returns the offline runners on GitHub that have a name of the set's and no runner in the cluster. Runners are
// listed after registrations: a runner exists before it is registered.
func (s *Strays) list(ctx context.Context, set *v1alpha1.EphemeralRunnerSet) (strayAnswer, error) {
	github, err := s.options.GitHub(ctx, credentials.ForEphemeralRunnerSet(set))
	if err != nil {
		return strayAnswer{}, fmt.Errorf("find registrations without a runner: %w", err)
	}
	offline, err := github.ListOfflineRunners(ctx, strayListAge)
	if err != nil {
		return strayAnswer{}, fmt.Errorf("find registrations without a runner: %w", err)
	}
	// By the namespace alone: whatever became of a runner's labels, it is none of the strays.
	runners, err := kube.ListMetadata(ctx, s.options.Reader, "EphemeralRunner", client.InNamespace(set.Namespace))
	if err != nil {
		return strayAnswer{}, err
	}
	existing := sets.New[string]()
	for i := range runners {
		existing.Insert(runners[i].Name)
	}
	return strayAnswer{found: straysAmong(offline.Names, set.Name, existing), listedAt: offline.ListedAt}, nil
}

// straysAmong returns the names that only the set gives and that are not those of existing runners. GitHub ignores the
// case of names.
func straysAmong(offline []string, runnerSet string, existing sets.Set[string]) []string {
	found := sets.New[string]()
	for _, name := range offline {
		if name = strings.ToLower(name); kube.IsRunnerName(runnerSet, name) && !existing.Has(name) {
			found.Insert(name)
		}
	}
	return sets.List(found)
}

// takeList remembers the result of a list, and asks for the removal of the strays that it confirms.
func (s *Strays) takeList(
	ctx context.Context, set *v1alpha1.EphemeralRunnerSet, m *StrayMemory, call pool.Call[strayAnswer],
) {
	now := s.options.Clock.Now()
	if call.Err != nil {
		s.rememberFailure(ctx, set, m, call.Err)
		return
	}
	m.failures, m.refused = 0, false
	set = set.DeepCopy() // the calls outlast the pass
	for _, name := range m.rememberFound(call.Result.found, call.Result.listedAt, now) {
		key := strayCall{client.ObjectKeyFromObject(set), name}
		m.removing.Insert(name)
		s.calls.Go(key.set.String(), key, func(ctx context.Context) (strayAnswer, error) {
			outcome, err := s.removeOne(ctx, set, name)
			return strayAnswer{outcome: outcome}, err // an error is not logged: the next list has the stray again
		})
	}
}

// rememberFailure plans the next list after one that failed. A refusal has a single Event, with what to do.
func (s *Strays) rememberFailure(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, m *StrayMemory, err error) {
	now := s.options.Clock.Now()
	m.failures++
	m.listAt = retryQuestionAt(err, m.failures, now)
	if !errors.Is(err, actions.ErrUnauthorized) {
		log.FromContext(ctx).Error(
			err, "Registrations without a runner could not be found, trying again", "at", m.listAt,
		)
		return
	}
	m.listAt = now.Add(strayRefusedBackoff)
	if m.refused {
		return
	}
	m.refused = true
	report.RecordEvent(ctx, s.options.Recorder, set, nil, report.Warning("StraysNotListed", "RemoveStrays", fmt.Sprintf(
		"GitHub counts registrations that no runner here accounts for, and does not let us list runners to find "+
			"them: %v; let the credentials read self-hosted runners, or remove offline runners named %s… by hand; "+
			"GitHub removes them after a day",
		err, kube.RunnerPrefix(set.Name))))
}

// rememberFound remembers the strays of a list, and returns those to remove: an earlier list, long enough before, had
// them too.
func (m *StrayMemory) rememberFound(found []string, listedAt, now time.Time) (confirmed []string) {
	before := m.offlineSince
	m.offlineSince, m.removing = map[string]time.Time{}, sets.New[string]()
	m.listAt = now.Add(strayInterval)
	for _, name := range found {
		since, known := before[name]
		if !known {
			since = listedAt
		}
		m.offlineSince[name] = since
		due := since.Add(strayGrace)
		switch {
		case listedAt.Before(due):
			m.listAt = kube.EarlierOf(m.listAt, kube.LaterOf(due, now.Add(strayListAge)))
		case len(confirmed) < mostStraysRemoved:
			confirmed = append(confirmed, name)
		default:
			m.listAt = now.Add(strayListAge)
		}
	}
	return confirmed
}

// removeOne asks GitHub to remove a stray, after a last look at whose it is.
func (s *Strays) removeOne(
	ctx context.Context, set *v1alpha1.EphemeralRunnerSet, name string,
) (outcome Answer, err error) {
	github, err := s.options.GitHub(ctx, credentials.ForEphemeralRunnerSet(set))
	if err != nil {
		return None, err
	}
	registered, err := github.GetRunnerByName(ctx, name)
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return Missing, nil
	case err != nil:
		return None, err
	case registered.RunnerScaleSetID != set.Spec.EphemeralRunnerSpec.RunnerScaleSetID:
		return Registered, nil // another scale set's
	}
	return removeRegistration(ctx, github, registered.ID, false)
}

// rememberRemoval remembers what became of a stray. If GitHub did not answer, the next list has it again.
func (m *StrayMemory) rememberRemoval(name string, call pool.Call[strayAnswer]) {
	m.removing.Delete(name)
	switch {
	case call.Err != nil:
	case call.Result.outcome == Busy:
		m.busy = append(m.busy, name)
	case call.Result.outcome == Removed:
		m.removed = append(m.removed, name)
		delete(m.offlineSince, name)
	}
}

// record has an Event about what became of strays, one for all of a list.
func (s *Strays) record(ctx context.Context, set *v1alpha1.EphemeralRunnerSet, m *StrayMemory) {
	if len(m.removed) > 0 {
		report.RecordEvent(ctx, s.options.Recorder, set, nil, report.Normal(
			"StraysRemoved", "RemoveStrays",
			fmt.Sprintf(
				"removed %s from GitHub: offline, and without a runner here, as after a restore of the cluster from "+
					"a backup",
				registrations(m.removed)),
		))
	}
	if len(m.busy) > 0 {
		report.RecordEvent(ctx, s.options.Recorder, set, nil, report.Warning("StrayHasJob", "RemoveStrays", fmt.Sprintf(
			"GitHub still counts a job as running on %s, offline and without a runner here, as after a restore of "+
				"the cluster from a backup: the job is lost, and GitHub fails it when it has not heard of the "+
				"runner for some ten minutes; run it again on GitHub", registrations(m.busy))))
	}
	m.removed, m.busy = nil, nil
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

// Forget drops the calls about a set's strays.
func (s *Strays) Forget(set types.NamespacedName, m *StrayMemory) {
	s.calls.Forget(strayCall{set: set})
	for name := range maps.Keys(m.removing) {
		s.calls.Forget(strayCall{set, name})
	}
}
