package launch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// deregister has a registration removed and returns what has become of it.
func (f *fixture) deregister(id int, certain bool) rules.Progress {
	f.Helper()
	f.Deregister(newRunner(), id, certain, f.memory)
	synctest.Wait()
	return f.memory.Removal()
}

// An id that is certain is removed. Of any other, as of none, GitHub says which registration has the runner's name: an
// id in a status may be that of a runner with a job.
func TestWhichRegistrationIsRemoved(t *testing.T) {
	const certain = true
	for rule, test := range map[string]struct {
		id      int
		certain bool
		holder  *actions.RunnerReference
		calls   string
	}{
		"a certain id":                    {7, certain, holder(9), "remove 7"},
		"an id out of a status":           {7, false, holder(9), "find set-runner-abcde, remove 9"},
		"none":                            {0, false, holder(9), "find set-runner-abcde, remove 9"},
		"none, of a runner that is known": {0, certain, holder(9), "find set-runner-abcde, remove 9"},
		"another scale set's of the name": {7, false, &actions.RunnerReference{ID: 9, RunnerScaleSetID: 6}, "find set-runner-abcde"},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.holder = test.holder
				wantFailure(t, f.deregister(test.id, test.certain), nil)
				if got := strings.Join(f.github.calls, ", "); got != test.calls {
					t.Errorf("calls to GitHub: %s, want %s", got, test.calls)
				}
			})
		})
	}
}

// A runner that no set counts may be a copy of one that works in another cluster: unless this process has registered
// it, GitHub is not asked about it.
func TestRunnersThatNoSetCounts(t *testing.T) {
	const certain, counted = true, true
	errUnread := errors.New("no set can be read")
	for rule, test := range map[string]struct {
		certain, counted bool
		err              error
		want             *rules.Failure
		calls            string
	}{
		"counted":                        {false, counted, nil, nil, "find set-runner-abcde, remove 7"},
		"not counted":                    {false, !counted, nil, nil, ""},
		"not counted, but certain":       {certain, !counted, nil, nil, "remove 7"},
		"nobody knows":                   {false, counted, errUnread, &rules.Failure{Reason: v1alpha1.ReasonRegistrationFailed, Message: "no set can be read"}, ""},
		"nobody knows, but it's certain": {certain, counted, errUnread, nil, "remove 7"},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.holder = holder(7)
				wantFailure(t, f.deregister(7, test.certain), test.want)
				if got := strings.Join(f.github.calls, ", "); got != test.calls {
					t.Errorf("calls to GitHub: %s, want %s", got, test.calls)
				}
			}, func(o *launch.Options) {
				o.Counted = func(context.Context, *v1alpha1.EphemeralRunner) (bool, error) { return test.counted, test.err }
			})
		})
	}
}

// What follows from a removal that has failed: a runner with a job is asked about again after 30 s, any other after 1
// s. That there is no such registration may be the answer of a proxy.
func TestARemovalThatFailed(t *testing.T) {
	for rule, test := range map[string]struct {
		id     int
		github github
		want   *rules.Failure
		pause  time.Duration
	}{
		"it has a job":          {7, github{keep: actions.ErrJobStillRunning}, &rules.Failure{Kind: rules.Busy, Reason: "JobRunning"}, 30 * time.Second},
		"it is not found":       {7, github{keep: actions.ErrRunnerNotFound}, &rules.Failure{Kind: rules.NotFound, Reason: v1alpha1.ReasonRegistrationFailed}, time.Second},
		"its name is not found": {0, github{}, &rules.Failure{Kind: rules.NotFound, Reason: v1alpha1.ReasonRegistrationFailed}, time.Second},
		"no answer":             {7, github{keep: errGitHubAway}, &rules.Failure{Reason: v1alpha1.ReasonRegistrationFailed, Message: "remove the registration: GitHub is away"}, time.Second},
		"no answer to its name": {0, github{hide: errGitHubAway}, &rules.Failure{Reason: v1alpha1.ReasonRegistrationFailed, Message: "remove the registration: GitHub is away"}, time.Second},
		"no credentials": {7, github{noClient: &credentials.MissingError{Kind: "Secret", Name: "github"}},
			&rules.Failure{Reason: v1alpha1.ReasonCredentialsMissing}, time.Second},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				*f.github = test.github
				got := f.deregister(test.id, true)
				wantFailure(t, got, test.want)
				if pause := got.RetryAt.Sub(got.FinishedAt); pause != test.pause {
					t.Errorf("it is repeated after %s, want %s", pause, test.pause)
				}
			})
		})
	}
}
