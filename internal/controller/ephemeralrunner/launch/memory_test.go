package launch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// Nothing is created for a runner after it was abandoned, whatever is under way. A registration that it has by then is
// told, so that it can be removed.
func TestNothingIsCreatedForAnAbandonedRunner(t *testing.T) {
	closed := &rules.Failure{Kind: rules.Closed, Reason: "Deleted", Message: "is being deleted"}
	for rule, test := range map[string]struct {
		during string // the request during which it is abandoned, empty for before the launch
		id     int
		left   string
	}{
		"before":                   {"", 0, ""},
		"while GitHub answers":     {"register", 42, ""},
		"while the Secret is made": {"create Secret", 42, "Secret"},
		"while the claim is made":  {"create PersistentVolumeClaim", 42, "Secret, claim"},
		"while the pod is made":    {"create Pod", 42, "Secret, claim, pod"},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				switch test.during {
				case "":
					f.memory.Abandon()
				case "register":
					f.github.meanwhile = f.memory.Abandon
				default:
					f.meanwhile[test.during] = f.memory.Abandon
				}
				want := closed
				if test.during == "create Pod" {
					want = nil
				}
				wantFailure(t, f.launch(newRunner(withClaim), 0), want)
				if _, id := f.memory.Launched(); id != test.id {
					t.Errorf("registration %d, want %d", id, test.id)
				}
				var left []string
				for _, has := range []struct {
					kind string
					it   bool
				}{{"Secret", f.hasSecret()}, {"claim", f.claim(claimName) != nil}, {"pod", f.hasPod()}} {
					if has.it {
						left = append(left, has.kind)
					}
				}
				if got := strings.Join(left, ", "); got != test.left {
					t.Errorf("created: %s, want %s", got, test.left)
				}
			})
		})
	}
}

// A runner that is not deleted after all is launched.
func TestAnAbandonedRunnerThatIsResumed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.memory.Abandon()
		f.memory.Resume()
		wantFailure(t, f.launch(newRunner(), 0), nil)
	})
}

// GitHub may have a registration as soon as it was asked for one, whatever the answer. A pass is told a single time,
// the finalization whenever it asks.
func TestWhetherGitHubWasAsked(t *testing.T) {
	const asked = true
	for rule, test := range map[string]struct {
		github github
		reuse  int
		want   bool
	}{
		"it has answered":           {github{}, 0, asked},
		"it has refused":            {github{refuse: errGitHubAway}, 0, asked},
		"there is no client":        {github{noClient: errGitHubAway}, 0, !asked},
		"a registration was reused": {github{}, 7, !asked},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				*f.github = test.github
				controllertest.Create(t, f.api, newSecret())
				f.launch(newRunner(), test.reuse)
				got := []bool{f.memory.WasAsked(), f.memory.TakeAsked(), f.memory.TakeAsked(), f.memory.WasAsked()}
				if want := []bool{test.want, test.want, false, test.want}; !slices.Equal(got, want) {
					t.Errorf("asked, told, told again, asked still: %v, want %v", got, want)
				}
			})
		})
	}
}

// pauses launches a runner as often as there are pauses, and returns how long each failure lasts before the next try.
func (f *fixture) pauses(count int) (seconds []float64) {
	f.Helper()
	for range count {
		progress := f.launch(newRunner(), 0)
		seconds = append(seconds, progress.RetryAt.Sub(progress.FinishedAt).Seconds())
	}
	return seconds
}

// A call that fails is repeated after a second, and each time after twice as long, up to a minute. An API server that
// is away is asked more often: a job waits for it. What GitHub says of the next call counts if that is later.
func TestPausesBetweenFailedCalls(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.noClient = errGitHubAway
		if diff := cmp.Diff([]float64{1, 2, 4, 8, 16, 32, 60, 60}, f.pauses(8)); diff != "" {
			t.Errorf("without GitHub (-want +got):\n%s", diff)
		}
		f.github.noClient = nil
		if got := f.launch(newRunner(), 0); !got.Succeeded() || !got.RetryAt.IsZero() {
			t.Errorf("launched: %+v", got)
		}
		f.github.noClient = errGitHubAway
		if diff := cmp.Diff([]float64{1, 2}, f.pauses(2)); diff != "" {
			t.Errorf("after a success (-want +got):\n%s", diff)
		}
		f.memory.ForgetCalls()
		if got, _ := f.memory.Launched(); got != (rules.Progress{}) {
			t.Errorf("a launch is not forgotten: %+v", got)
		}
		f.github.noClient = limited(5 * time.Minute)
		if diff := cmp.Diff([]float64{300}, f.pauses(1)); diff != "" {
			t.Errorf("within a limit (-want +got):\n%s", diff)
		}
		f.github.noClient = limited(time.Second)
		if diff := cmp.Diff([]float64{2, 4}, f.pauses(2)); diff != "" {
			t.Errorf("within a limit that ends sooner (-want +got):\n%s", diff)
		}
	})
	inBubble(t, func(f *fixture) {
		f.fails["create Pod"] = errNoAnswer
		if diff := cmp.Diff([]float64{1, 2, 4, 8, 10, 10}, f.pauses(6)); diff != "" {
			t.Errorf("without an API server (-want +got):\n%s", diff)
		}
	})
}

// limited is GitHub's answer that the next call is allowed after a while.
func limited(wait time.Duration) error {
	return &actions.RateLimitedError{Until: time.Now().Add(wait), Err: errGitHubAway}
}

// A call under way is neither a success nor a failure, and no other one is made.
func TestACallUnderWay(t *testing.T) {
	inBubble(t, func(f *fixture) {
		answer := make(chan struct{})
		f.github.meanwhile = func() { <-answer }
		for range 2 {
			f.Launch(newSet(), newRunner(), 0, f.memory)
			synctest.Wait()
			if got, id := f.memory.Launched(); !got.Known || !got.Running || got.Failure != nil || id != 0 {
				t.Errorf("registration %d, %+v, want a call under way", id, got)
			}
		}
		close(answer)
		synctest.Wait()
		if got, id := f.memory.Launched(); !got.Succeeded() || id != 42 || len(f.github.asked) != 1 {
			t.Errorf("registration %d after %d requests for one, %+v", id, len(f.github.asked), got)
		}
	})
}

// The log names a job by GitHub's id, or by the number of its request where the server sends no id.
func TestTheJobInTheLog(t *testing.T) {
	for rule, test := range map[string]struct {
		status v1alpha1.EphemeralRunnerStatus
		id     string
		values string
	}{
		"no job":          {v1alpha1.EphemeralRunnerStatus{}, "", "[]"},
		"an id":           {v1alpha1.EphemeralRunnerStatus{JobID: "job"}, "job", "[jobID job]"},
		"an id and more":  {v1alpha1.EphemeralRunnerStatus{JobID: "job", JobRequestID: 12}, "job", "[jobID job]"},
		"only the number": {v1alpha1.EphemeralRunnerStatus{JobRequestID: 12}, "12", "[jobID 12]"},
	} {
		runner := newRunner(func(r *v1alpha1.EphemeralRunner) { r.Status = test.status })
		if got := launch.JobID(&runner.Status); got != test.id {
			t.Errorf("%s: id %q, want %q", rule, got, test.id)
		}
		if got := fmt.Sprint(launch.LogValues(runner)); got != test.values {
			t.Errorf("%s: logged %s, want %s", rule, got, test.values)
		}
	}
}
