package feedback_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// at has a job end some time after the loss.
func (j job) at(after time.Duration) job {
	j.CompletedAt = epoch.Add(after)
	return j
}

func sibling(i int, conclusion string, after time.Duration) job {
	return job{Name: fmt.Sprint("sibling ", i), Status: "completed", Conclusion: conclusion,
		RunnerName: fmt.Sprint("s", i)}.at(after)
}

// matrix is a run whose job on runner a was lost and failed ten minutes later, whereupon GitHub cancelled the others.
func matrix(cancelled int) *run {
	jobs := []job{lostJob("a", "failure").at(10 * time.Minute), sibling(0, "success", time.Minute)}
	for i := range cancelled {
		jobs = append(jobs, sibling(i+1, "cancelled", 10*time.Minute+time.Duration(i)*time.Second))
	}
	github := newRun(epoch, jobs...)
	github.conclusion = "failure"
	return github
}

// wantReruns checks how often each other job was asked for.
func (s *set) wantReruns(want int) {
	s.Helper()
	for _, j := range s.github.attempts[0] {
		expected := want
		if j.Conclusion == "success" {
			expected = 0
		}
		if got := s.github.reruns[j.Name]; strings.HasPrefix(j.Name, "sibling") && got != expected {
			s.Errorf("%s was asked for %d times, want %d", j.Name, got, expected)
		}
	}
}

// A node dies under one job of a matrix with fail-fast: its 19 siblings run again, whether or not GitHub takes cancelled
// jobs for failed ones.
func TestWhatGitHubCancelledBecauseOfALossRunsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		onlyFailed bool
		asked      int
	}{"with the failed one": {false, 1}, "one after the other": {true, 20}} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, matrix(19), "a")
			s.github.onlyFailed = test.onlyFailed
			for range 22 {
				s.pass(15 * time.Minute)
				s.github.end()
			}
			s.want(0, v1alpha1.RerunDone, "attempt 2 of the workflow run has it; 19 jobs", 1)
			s.wantReruns(1)
			if s.github.asked != test.asked || s.told["a"] != 1 {
				t.Errorf("asked %d times, want %d; told %d times", s.github.asked, test.asked, s.told["a"])
			}
		})
	}
}

// Two jobs of the matrix were lost: the one whose runner can't have said so was cancelled with the others.
func TestALostJobThatWasCancelledWithTheOthersRunsAgain(t *testing.T) {
	github := matrix(3)
	github.begin(append(github.jobs(), lostJob("b", "cancelled").at(10*time.Minute)))
	github.attempts = github.attempts[1:]
	s := newSet(t, github, "a", "b")
	s.lost[0].Silent, s.lost[1].Silent = true, true
	s.pass(15 * time.Minute)
	s.want(0, v1alpha1.RerunDone, "3 jobs that GitHub cancelled", 1)
	s.want(1, v1alpha1.RerunDone, "attempt 2", 1)
	s.wantReruns(1)
	if github.asked != 1 {
		t.Errorf("asked %d times", github.asked)
	}
}

// Who cancelled a job is not always known: then none of those that are in doubt runs again.
func TestInDoubtNoCancelledJobRunsAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*run)
		state  v1alpha1.RerunState
		says   string
		reruns int
	}{
		"the run was cancelled": {func(r *run) { r.conclusion = "cancelled" }, v1alpha1.RerunGivenUp, "seems to have been cancelled", 0},
		"minutes later": {func(r *run) {
			r.jobs()[2], r.jobs()[3] = sibling(1, "cancelled", 12*time.Minute), sibling(2, "cancelled", 12*time.Minute)
		}, v1alpha1.RerunDone, "attempt 2", 1},
		"one much later": {func(r *run) { r.jobs()[3] = sibling(2, "cancelled", 20*time.Minute) }, v1alpha1.RerunGivenUp, "seems to have been cancelled", 0},
		"one before":     {func(r *run) { r.jobs()[3] = sibling(2, "cancelled", 2*time.Minute) }, v1alpha1.RerunDone, "attempt 2", 1},
		"one failed by itself": {func(r *run) {
			r.begin(append(r.jobs(), sibling(3, "failure", 9*time.Minute)))
			r.attempts = r.attempts[1:]
		}, v1alpha1.RerunDone, "attempt 2", 1},
		"nobody knows when": {func(r *run) { r.jobs()[2].CompletedAt = time.Time{} }, v1alpha1.RerunGivenUp, "seems to have been cancelled", 0},
	} {
		t.Run(name, func(t *testing.T) {
			github := matrix(2)
			test.change(github)
			s := newSet(t, github, "a")
			for range 3 {
				s.pass(15 * time.Minute)
				github.end()
			}
			s.want(0, test.state, test.says, test.reruns)
			s.wantReruns(0)
		})
	}
}

// Somebody takes the run into his own hands while cancelled jobs follow, or a newer run overtakes it: nothing more is
// asked, and the lost job's story ends with how many were left.
func TestWhatFollowsEndsWithTheRun(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*set)
		says    string
	}{
		"somebody else": {func(s *set) { s.github.rerun(func(j job) bool { return j.Name == "sibling 0" }) }, "3 do not run again: somebody else"},
		"overtaken":     {func(s *set) { s.github.newer = []int{9} }, "3 do not run again: run 9 of the workflow"},
		"gone":          {func(s *set) { s.github.refuse = refusal("rerun_job", 404) }, "3 do not run again"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, matrix(3), "a")
			s.github.onlyFailed = true
			s.pass(15 * time.Minute)
			s.want(0, v1alpha1.RerunWanted, "3 jobs that GitHub cancelled because of its loss follow", 1)
			s.github.end()
			test.happens(s)
			for range 3 {
				s.pass(15 * time.Minute)
				s.github.end()
			}
			s.want(0, v1alpha1.RerunDone, test.says, 1)
			s.wantReruns(0)
			if s.told["a"] != 1 {
				t.Errorf("told %d times", s.told["a"])
			}
		})
	}
}

// Whatever dies and gets lost on the way, each job of a matrix that lost one runs again a single time.
func TestAMatrixRunsAgainOnceUnderKills(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 2))
		github := matrix(1 + random.IntN(4))
		github.onlyFailed = random.IntN(2) == 0
		runners := []string{"a"}
		if random.IntN(2) == 0 {
			conclusion := []string{"cancelled", "failure"}[random.IntN(2)]
			github.begin(append(github.jobs(), lostJob("b", conclusion).at(10*time.Minute+time.Second)))
			github.attempts, runners = github.attempts[1:], append(runners, "b")
		}
		s := newSet(t, github, runners...)
		var second *set
		if len(runners) == 2 && random.IntN(2) == 0 { // on another scale set, which decides by itself
			second = newSet(t, github, "b")
			s.lost = s.lost[:1]
			s.beside, second.beside = second.lost, s.lost
			s.pass(30 * time.Second) // both see the run before the losses are settled
			second.step()
			second.killed = func() bool { return random.IntN(3) == 0 }
		}
		s.killed = func() bool { return random.IntN(3) == 0 }
		for range 80 {
			github.lose = random.IntN(2)
			if random.IntN(2) == 0 {
				github.end()
			}
			s.pass(10 * time.Minute)
			if second != nil {
				second.step()
			}
		}
		s.wantReruns(1)
		for _, l := range s.lost {
			if l.Undecided() || s.told[l.Runner] != 1 || github.reruns["job "+l.Runner] != 1 {
				t.Errorf("%s: %s %q, told %d times, asked for %d times", l.Runner, l.Rerun.State, l.Rerun.Message,
					s.told[l.Runner], github.reruns["job "+l.Runner])
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d, two sets: %t, only failed: %t: %+v", seed, second != nil, github.onlyFailed,
				s.lost[0].Rerun)
		}
	}
}
