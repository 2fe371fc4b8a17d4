package feedback_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/rest"
	"github.com/harrier-ci/harrier/internal/feedback"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// set is a scale set with lost jobs of one run: what a controller writes down survives, all else is lost whenever it is
// killed.
type set struct {
	*testing.T
	github *run
	policy feedback.Policy
	lost   []*feedback.Lost
	beside []*feedback.Lost // on runners of other sets
	told   map[string]int   // final verdicts by runner
	// killed, unless it is nil, tells whether the manager dies before the next write.
	killed func() bool
}

func newSet(t *testing.T, github *run, runners ...string) *set {
	s := &set{T: t, github: github, told: map[string]int{},
		policy: feedback.Policy{MaxAttempts: 1, Causes: []v1alpha1.LostCause{v1alpha1.LostCauseEvicted}}}
	for _, runner := range runners {
		s.lost = append(s.lost, &feedback.Lost{Runner: runner, Cause: v1alpha1.LostCauseEvicted, At: epoch,
			Run: feedback.Run{Repository: "acme/app", ID: 7}})
	}
	return s
}

func (s *set) write(verdicts []feedback.Verdict) {
	for _, v := range verdicts {
		if s.killed != nil && s.killed() {
			return
		}
		if !v.Lost.Undecided() {
			s.Errorf("%s was %s, and is to be %s", v.Lost.Runner, v.Lost.Rerun.State, v.State)
		}
		v.Lost.Rerun = v1alpha1.RerunStatus{State: v.State, Attempt: v.Attempt, Message: v.Message,
			Consequences: v.Consequences}
		if !v.Lost.Undecided() {
			s.told[v.Lost.Runner]++
			if v.Message == "" {
				s.Errorf("nothing is said of %s", v.Lost.Runner)
			}
		}
	}
}

func (s *set) undecided() (undecided []*feedback.Lost) {
	for _, l := range s.lost {
		if l.Undecided() {
			undecided = append(undecided, l)
		}
	}
	return undecided
}

// step visits the run and writes down what follows, as often as something does.
func (s *set) step() {
	for {
		if given := s.policy.Screen(s.undecided(), s.github.now); len(given) > 0 {
			s.write(given)
			continue
		}
		if len(s.undecided()) == 0 {
			return
		}
		seen, err := s.policy.Visit(s.Context(), rest.New(s.github), &feedback.Budget{},
			&feedback.Question{Run: s.lost[0].Run, Lost: s.lost, Beside: s.beside})
		if err != nil {
			if feedback.IsFinal(err) {
				s.write(feedback.GiveUp(s.lost, feedback.WhyGivenUp(err), err))
			}
			return
		}
		changed := false
		for { // what was seen is judged until nothing follows from it any more, as it is by a controller
			verdicts := s.policy.Decide(s.lost, s.beside, seen, s.github.now)
			if len(verdicts) == 0 {
				break
			}
			changed = true
			s.write(verdicts)
			if s.killed != nil && s.killed() {
				return
			}
		}
		if !changed {
			return
		}
	}
}

func (s *set) pass(d time.Duration) {
	s.github.now = s.github.now.Add(d)
	s.step()
}

// want checks the state of a lost job, its message, and the number of its reruns.
func (s *set) want(i int, state v1alpha1.RerunState, message string, reruns int) {
	s.Helper()
	l := s.lost[i]
	if l.Rerun.State != state || !strings.Contains(l.Rerun.Message, message) {
		s.Errorf("%s is %s: %q, want %s: %q", l.Runner, l.Rerun.State, l.Rerun.Message, state, message)
	}
	if got := s.github.reruns[fmt.Sprint("job ", l.Runner)]; got != reruns {
		s.Errorf("the job on %s was asked for %d times, want %d", l.Runner, got, reruns)
	}
}

func lostJob(runner, conclusion string) job {
	return job{Name: "job " + runner, Status: "completed", Conclusion: conclusion, RunnerName: runner}
}

func other(status, conclusion string) job {
	return job{Name: "other", Status: status, Conclusion: conclusion, RunnerName: "elsewhere"}
}

func TestALostJobRunsAgainWhenItsRunHasEnded(t *testing.T) {
	s := newSet(t, newRun(epoch, lostJob("a", "cancelled"), other("in_progress", "")), "a")
	s.pass(2 * time.Minute)
	s.want(0, v1alpha1.RerunWanted, "when its workflow run has ended", 0)
	s.github.end()
	s.pass(time.Minute)
	s.want(0, v1alpha1.RerunDone, "attempt 2", 1)
	s.github.end()
	s.pass(time.Hour)
	if s.github.asked != 1 || s.told["a"] != 1 {
		t.Errorf("asked %d times and told %d times, want once", s.github.asked, s.told["a"])
	}
}

func TestARunIsLeftAloneUntilOtherLossesAreKnown(t *testing.T) {
	s := newSet(t, newRun(epoch, lostJob("a", "cancelled"), lostJob("b", "cancelled")), "a", "b")
	s.lost[1].At = epoch.Add(40 * time.Second)
	s.pass(70 * time.Second)
	s.want(0, v1alpha1.RerunWanted, "", 0)
	s.pass(time.Minute)
	s.want(0, v1alpha1.RerunDone, "", 1)
	s.want(1, v1alpha1.RerunDone, "", 1)
	if s.github.asked != 1 {
		t.Errorf("asked %d times for two jobs that are all that failed, want once", s.github.asked)
	}
}

func TestSeveralLostJobsBesideAFailedOneRunOneAfterTheOther(t *testing.T) {
	s := newSet(t, newRun(epoch, other("completed", "failure"), lostJob("a", "cancelled"), lostJob("b", "failure")), "b",
		"a")
	s.pass(2 * time.Minute)
	s.want(1, v1alpha1.RerunDone, "attempt 2", 1)
	s.want(0, v1alpha1.RerunWanted, "", 0)
	s.github.end()
	s.pass(2 * time.Minute)
	s.want(0, v1alpha1.RerunDone, "attempt 3", 1)
	if s.github.reruns["other"] != 0 {
		t.Error("a job that failed by itself was run again")
	}
}

func TestWhoIsNotRunAgain(t *testing.T) {
	for name, test := range map[string]struct {
		jobs    []job
		change  func(*set)
		message string
	}{
		"by cause":            {[]job{lostJob("a", "cancelled")}, func(s *set) { s.lost[0].Cause = v1alpha1.LostCauseOOMKilled }, "OOMKilled is none of the causes"},
		"unknown run":         {[]job{lostJob("a", "cancelled")}, func(s *set) { s.lost[0].Run.ID = 0 }, "not named"},
		"foreign repository":  {[]job{lostJob("a", "cancelled")}, func(s *set) { s.lost[0].Run.Repository = "other/app" }, "not a repository"},
		"cancelled by person": {[]job{lostJob("a", "cancelled"), other("completed", "cancelled")}, nil, "seems to have been cancelled"},
		"has a result":        {[]job{lostJob("a", "success")}, nil, "GitHub says success"},
		"not in the run":      {[]job{other("completed", "failure")}, nil, "was on its runner"},
		"run again by a person before": {[]job{lostJob("a", "cancelled")}, func(s *set) {
			s.github.rerun(failed)
			s.github.end()
		}, "maxAttempts is 1"},
		"without the permission": {[]job{lostJob("a", "cancelled")}, func(s *set) {
			s.github.refuse = refusal(actions.EndpointRerunFailedJobs, http.StatusForbidden)
		}, "403"},
		"run deleted": {[]job{lostJob("a", "cancelled")}, func(s *set) {
			s.github.refuse = refusal(actions.EndpointRerunFailedJobs, http.StatusNotFound)
		}, "404"},
		"overtaken": {[]job{lostJob("a", "cancelled")}, func(s *set) { s.github.newer = []int{3, 9} }, "run 9 of the workflow"},
		"too old": {[]job{lostJob("a", "cancelled")}, func(s *set) {
			s.github.created = epoch.AddDate(0, 0, -31)
			s.github.refuse = refusal(actions.EndpointRerunFailedJobs, http.StatusForbidden)
		}, "30 days"},
		"never ended": {[]job{lostJob("a", "cancelled"), other("in_progress", "")}, func(s *set) { s.pass(25 * time.Hour) }, "within 24 h"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, newRun(epoch, test.jobs...), "a")
			if test.change != nil {
				test.change(s)
			}
			s.pass(2 * time.Minute)
			s.want(0, v1alpha1.RerunGivenUp, test.message, 0)
			if s.told["a"] != 1 {
				t.Errorf("told %d times", s.told["a"])
			}
		})
	}
}

// On a busy branch there is nearly always a newer run; a re-run of the older one would deploy over it.
func TestAnOlderRunOvertakesOnlyIfThatIsChosen(t *testing.T) {
	for name, test := range map[string]struct {
		newer     []int
		overtakes bool
		again     bool
	}{
		"no other":                  {nil, false, true},
		"an older one":              {[]int{6}, false, true},
		"a newer one":               {[]int{6, 8}, false, false},
		"a newer one, as is chosen": {[]int{6, 8}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, newRun(epoch, lostJob("a", "cancelled"), lostJob("b", "failure")), "a", "b")
			s.policy.Overtakes, s.github.newer = test.overtakes, test.newer
			s.pass(2 * time.Minute)
			for i := range s.lost {
				if test.again {
					s.want(i, v1alpha1.RerunDone, "attempt 2", 1)
				} else {
					s.want(i, v1alpha1.RerunGivenUp, "run 8 of the workflow, for the same branch and event, is newer", 0)
				}
			}
			if s.github.asked > 1 || (s.github.asked == 1) != test.again {
				t.Errorf("asked %d times", s.github.asked)
			}
		})
	}
}

// A newer run that begins while an older one waits for its end, or while GitHub doesn't answer, overtakes it, too.
func TestANewerRunIsSeenJustBefore(t *testing.T) {
	s := newSet(t, newRun(epoch, lostJob("a", "cancelled")), "a")
	s.github.refuse = &actions.RateLimitedError{Until: epoch.Add(time.Hour),
		Err: refusal(actions.EndpointRerunFailedJobs, http.StatusForbidden)}
	s.pass(2 * time.Minute)
	s.want(0, v1alpha1.RerunAsked, "", 0)
	s.github.refuse, s.github.newer = nil, []int{8}
	s.pass(time.Hour)
	s.want(0, v1alpha1.RerunGivenUp, "is newer", 0)
}

// A runner that is told to stop cancels its job while it ends. Whoever cancels a job later, or one whose runner could
// say nothing, meant to.
func TestAJobThatWasCancelledAfterItsLossIsNotRunAgain(t *testing.T) {
	for name, test := range map[string]struct {
		cause  v1alpha1.LostCause
		silent bool
		after  time.Duration
		again  bool
	}{
		"by its runner, told to stop":        {v1alpha1.LostCauseEvicted, false, -3 * time.Second, true},
		"by its runner, on a node shut down": {v1alpha1.LostCauseNodeLost, false, -3 * time.Second, true},
		"by its runner, clocks differ":       {v1alpha1.LostCauseEvicted, false, 40 * time.Second, true},
		"later, by somebody":                 {v1alpha1.LostCauseEvicted, false, 3 * time.Minute, false},
		"while its node was silent":          {v1alpha1.LostCauseNodeLost, true, -3 * time.Minute, false},
		"when its node was gone":             {v1alpha1.LostCauseNodeLost, true, 3 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			ended := lostJob("a", "cancelled")
			ended.CompletedAt = epoch.Add(test.after)
			s := newSet(t, newRun(epoch, ended), "a")
			s.policy.Causes = v1alpha1.LostCauses
			s.lost[0].Cause, s.lost[0].Silent = test.cause, test.silent
			s.pass(10 * time.Minute)
			if test.again {
				s.want(0, v1alpha1.RerunDone, "attempt 2", 1)
			} else {
				s.want(0, v1alpha1.RerunGivenUp, "was cancelled on GitHub", 0)
			}
		})
	}
}

// A job that GitHub calls failed was cancelled by nobody.
func TestAJobOfASilentRunnerThatFailedIsRunAgain(t *testing.T) {
	failed := lostJob("a", "failure")
	failed.CompletedAt = epoch.Add(10 * time.Minute)
	s := newSet(t, newRun(epoch, failed), "a")
	s.lost[0].Silent = true
	s.pass(12 * time.Minute)
	s.want(0, v1alpha1.RerunDone, "attempt 2", 1)
}

// Jobs of one run may be lost on two sets, which decide for themselves: each runs again a single time, also if both
// sets ask at the same moment.
func TestJobsOfOneRunThatWereLostOnTwoSetsRunAgain(t *testing.T) {
	for name, atOnce := range map[string]bool{"one after the other": false, "at the same time": true} {
		t.Run(name, func(t *testing.T) {
			github := newRun(epoch, lostJob("a", "cancelled"), lostJob("b", "cancelled"))
			first, second := newSet(t, github, "a"), newSet(t, github, "b")
			first.beside, second.beside = second.lost, first.lost
			if atOnce {
				second.lost[0].Rerun = v1alpha1.RerunStatus{State: v1alpha1.RerunAsked, Attempt: 1}
				first.lost[0].Rerun = v1alpha1.RerunStatus{State: v1alpha1.RerunAsked, Attempt: 1}
			}
			first.pass(30 * time.Second) // both see the run before the losses are settled
			second.step()
			for range 4 {
				first.pass(2 * time.Minute)
				second.step()
				github.end()
			}
			first.want(0, v1alpha1.RerunDone, "attempt 2", 1)
			second.want(0, v1alpha1.RerunDone, "attempt 3", 1)
			if github.asked != 2 {
				t.Errorf("asked %d times, want once for each", github.asked)
			}
		})
	}
}

func TestAnAttemptOfSomebodyElseEndsIt(t *testing.T) {
	s := newSet(t, newRun(epoch, other("completed", "failure"), lostJob("a", "cancelled"), lostJob("b", "cancelled")),
		"a", "b")
	s.pass(2 * time.Minute)
	s.github.end()
	s.github.rerun(func(j job) bool { return j.Name == "other" })
	s.pass(2 * time.Minute)
	s.want(0, v1alpha1.RerunDone, "", 1)
	s.want(1, v1alpha1.RerunGivenUp, "somebody else", 0)
}

func TestARateLimitOrALostAnswerIsNoEnd(t *testing.T) {
	s := newSet(t, newRun(epoch, lostJob("a", "cancelled")), "a")
	s.github.refuse = &actions.RateLimitedError{Until: epoch.Add(time.Hour),
		Err: refusal(actions.EndpointRerunFailedJobs, http.StatusForbidden)}
	s.pass(2 * time.Minute)
	s.want(0, v1alpha1.RerunAsked, "", 0)
	s.github.refuse, s.github.lose = nil, 1
	s.pass(time.Hour)
	s.want(0, v1alpha1.RerunAsked, "", 1)
	s.pass(time.Minute)
	s.want(0, v1alpha1.RerunDone, "", 1)
}

func TestAtMostTenThousandWait(t *testing.T) {
	s := newSet(t, newRun(epoch, other("in_progress", "")))
	for i := range 10_020 {
		s.lost = append(s.lost, &feedback.Lost{Runner: fmt.Sprint(i), Cause: v1alpha1.LostCauseEvicted, At: epoch,
			Run: feedback.Run{Repository: "acme/app", ID: int64(i + 1)}})
	}
	if given := s.policy.Screen(s.lost, epoch); len(given) != 20 || given[0].Lost.Runner != "10000" {
		t.Errorf("%d are given up, want the last 20", len(given))
	}
}

// someJobs returns the jobs of a run, of which some were lost with their runners, some failed by themselves, and some
// go on.
func someJobs(random *rand.Rand) (jobs []job, runners []string) {
	for i := range 1 + random.IntN(4) {
		name := fmt.Sprint("r", i)
		switch random.IntN(4) {
		case 0:
			jobs = append(jobs, job{Name: "own " + name, Status: "completed", Conclusion: "failure", RunnerName: "x" + name})
		case 1:
			jobs = append(jobs, job{Name: "own " + name, Status: "in_progress", RunnerName: "x" + name})
		default:
			jobs, runners = append(jobs, lostJob(name, []string{"cancelled", "failure"}[random.IntN(2)])), append(runners, name)
		}
	}
	return jobs, runners
}

// Whatever dies and gets lost on the way, each lost job is run again a single time, or it is said a single time why
// not, and no other job is.
func TestNoJobIsRunTwiceOrForgotten(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		jobs, runners := someJobs(random)
		s := newSet(t, newRun(epoch, jobs...), runners...)
		s.policy.MaxAttempts = 1 + random.IntN(2)
		s.killed = func() bool { return random.IntN(4) == 0 }
		for range 60 {
			s.github.lose = random.IntN(2)
			if random.IntN(4) == 0 {
				s.github.end()
			}
			if random.IntN(40) == 0 && s.github.ended() {
				s.github.rerun(failed)
			}
			s.pass(time.Duration(random.IntN(180)) * time.Second)
		}
		s.killed = nil
		s.pass(25 * time.Hour)
		for i, l := range s.lost {
			reruns := s.github.reruns["job "+l.Runner]
			if l.Undecided() || s.told[l.Runner] != 1 || reruns > 1 {
				t.Fatalf("seed %d: lost job %d: %s %q, told %d times, asked for %d times", seed, i, l.Rerun.State, l.Rerun.Message,
					s.told[l.Runner], reruns)
			}
			if again := s.github.jobs(); l.Rerun.State == v1alpha1.RerunDone && onRunner(again, l.Runner) {
				t.Fatalf("seed %d: lost job %d is said to run again, and does not: %+v", seed, i, again)
			}
		}
		for name := range s.github.reruns {
			if strings.HasPrefix(name, "own") {
				t.Fatalf("seed %d: %s was run again", seed, name)
			}
		}
	}
}

func onRunner(jobs []job, runner string) bool {
	for _, j := range jobs {
		if j.RunnerName == runner {
			return true
		}
	}
	return false
}
