package e2e

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// serve starts a GitHub of the test's own where pods reach it, so that nothing of other tests shows up in its state.
func serve(t *testing.T, options fakegithub.Options) *fakegithub.ControlClient {
	t.Helper()
	server := fakegithub.New(options)
	t.Cleanup(server.Close)
	address, err := server.Start(net.JoinHostPort(nodeAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	return &fakegithub.ControlClient{BaseURL: address}
}

// nodeAddress returns the address at which pods reach servers on this machine.
func nodeAddress(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(place.GitHubURL)
	if err != nil {
		t.Fatal(err)
	}
	return address.Hostname()
}

// awaitListener waits for the session. Helm's own waiting is not enough after an installation: it regards an object
// with an empty status as ready.
func (s *scaleSet) awaitListener() {
	s.t.Helper()
	s.await(s.t.Context(), "the listener to poll", func() (string, error) {
		set := s.onGitHub(s.t.Context())
		if set == nil {
			return "the scale set is not on GitHub", nil
		}
		polls := func(v state.SessionView) bool { return v.ScaleSetID == set.ID && v.Polling }
		if !slices.ContainsFunc(s.snapshot(s.t.Context()).Sessions, polls) {
			return "nobody polls its messages", nil
		}
		return "", nil
	})
}

func (s *scaleSet) snapshot(ctx context.Context) fakegithub.Snapshot {
	s.t.Helper()
	snapshot, err := s.github.Snapshot(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return snapshot
}

func (s *scaleSet) onGitHub(ctx context.Context) *state.ScaleSetView {
	s.t.Helper()
	sets := s.snapshot(ctx).ScaleSets
	if i := slices.IndexFunc(sets, func(v state.ScaleSetView) bool { return v.Name == s.name }); i >= 0 {
		return &sets[i]
	}
	return nil
}

// idle returns the set's runners on GitHub that are online without a job.
func (s *scaleSet) idle() []state.RunnerView {
	s.t.Helper()
	set := s.onGitHub(s.t.Context())
	if set == nil {
		return nil
	}
	return slices.DeleteFunc(s.snapshot(s.t.Context()).Runners, func(r state.RunnerView) bool {
		return r.ScaleSetID != set.ID || !r.Online || r.Busy
	})
}

func (s *scaleSet) awaitIdle(count int) {
	s.t.Helper()
	s.await(s.t.Context(), fmt.Sprintf("%d idle runners", count), func() (string, error) {
		if got := len(s.idle()); got != count {
			return fmt.Sprintf("there are %d", got), nil
		}
		return "", nil
	})
}

// queue queues jobs that take so long, and returns their ids.
func (s *scaleSet) queue(count int, duration time.Duration) []int64 {
	s.t.Helper()
	ids, err := s.github.QueueJobs(s.t.Context(), fakegithub.JobRequest{
		Count: count, ScaleSet: s.name, Duration: fakegithub.Duration(duration),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// awaitJobs waits until all of the jobs are in the state, and returns them.
func (s *scaleSet) awaitJobs(ids []int64, in fakegithub.JobState) []fakegithub.Job {
	s.t.Helper()
	var found []fakegithub.Job
	s.await(s.t.Context(), "jobs to be "+string(in), func() (string, error) {
		jobs, err := s.github.Jobs(s.t.Context(), in)
		if err != nil {
			return "", err
		}
		found = slices.DeleteFunc(jobs, func(j fakegithub.Job) bool { return !slices.Contains(ids, j.RequestID) })
		if len(found) < len(ids) {
			return fmt.Sprintf("%d of %d are", len(found), len(ids)), nil
		}
		return "", nil
	})
	return found
}

// endJobs ends the running jobs. The test must not have waited longer than they take.
func (s *scaleSet) endJobs() {
	s.t.Helper()
	if err := s.github.Act(s.t.Context(), fakegithub.Action{Action: "end-jobs"}); err != nil {
		s.t.Fatal(err)
	}
}

// awaitSuccess waits for the end of the jobs; each must have succeeded at the first attempt.
func (s *scaleSet) awaitSuccess(ids []int64) {
	s.t.Helper()
	for _, job := range s.awaitJobs(ids, state.Completed) {
		if job.Result != state.ResultSucceeded || job.Attempts > 1 {
			s.t.Errorf("job %d: %s after %d attempts on runner %q", job.RequestID, job.Result, job.Attempts, job.Runner)
		}
	}
}
