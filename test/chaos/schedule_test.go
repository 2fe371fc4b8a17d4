package chaos

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestSeedDecidesSchedule(t *testing.T) {
	if first, second := newSchedule(7), newSchedule(7); !reflect.DeepEqual(first, second) {
		t.Errorf("two schedules of one seed differ:\n%s\n%s", first, second)
	}
	if first, second := newSchedule(7), newSchedule(8); reflect.DeepEqual(first.faults, second.faults) {
		t.Error("two seeds have the same faults")
	}
}

func TestSchedules(t *testing.T) {
	for seed := range uint64(500) {
		s := newSchedule(seed)
		checkFaults(t, s)
		checkJobs(t, s)
	}
}

// seedsOfCI is the number of seeds that .ci/run runs.
const seedsOfCI = 12

func TestTheSeedsOfCIHaveEveryFault(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(seedsOfCI) {
		s := newSchedule(seed + 1)
		seen[gitHubAheadBy(s.gitHubAhead)]++
		seen[zeroIsFinal(s.zeroIsFinal)]++
		seen[claimsWith(s.claims.most > 0, s.claims.keptAfterSuccess)]++
		for _, f := range s.faults {
			seen[string(f.kind)]++
			seen[string(f.kind)+f.variant]++
			if special := specialCase(s, f); special != "" {
				seen[special]++
			}
		}
	}
	wanted := []string{
		leaderOfTwoKilled, aloneThenTwo, gitHubAheadBy(0), gitHubAheadBy(clockError), gitHubAheadBy(-clockError),
		zeroIsFinal(false), zeroIsFinal(true),
	}
	for _, limited := range []bool{false, true} {
		for _, kept := range []bool{false, true} {
			wanted = append(wanted, claimsWith(limited, kept))
		}
	}
	for _, p := range slices.Concat(profiles, questions, closures, storageFaults) {
		for _, variant := range append([]string{""}, p.variants...) {
			wanted = append(wanted, string(p.kind)+variant)
		}
	}
	for _, what := range wanted {
		if seen[what] == 0 {
			t.Errorf("no seed has: %s", what)
		}
	}
}

func gitHubAheadBy(ahead time.Duration) string { return "GitHub's clock ahead by " + ahead.String() }

func zeroIsFinal(final bool) string { return fmt.Sprint("zero is final: ", final) }

func claimsWith(limited, kept bool) string {
	return fmt.Sprintf("claims limited: %t, kept after success only: %t", limited, kept)
}

// Cases in which it matters what else is special about the run.
const (
	leaderOfTwoKilled = "the leader of two managers is killed"
	aloneThenTwo      = "one manager, two, and one again"
)

func specialCase(s schedule, f fault) string {
	switch {
	case f.kind == killManager && f.variant == ofLeader && s.managers > 1:
		return leaderOfTwoKilled
	case f.kind == scaleManagers && s.managers == 1:
		return aloneThenTwo
	default:
		return ""
	}
}

func checkFaults(t *testing.T, s schedule) {
	t.Helper()
	if asked := len(s.faults) - faultsPerRun - 2; asked < len(questions)-1 || asked > len(questions) {
		t.Errorf("seed %d has %d faults", s.seed, len(s.faults))
	}
	var before time.Duration
	for _, f := range s.faults {
		if f.at < firstFault || f.end() > faultWindow {
			t.Errorf("seed %d: %s does not lie within the fault window", s.seed, f)
		}
		if f.at < before {
			t.Errorf("seed %d: %s is out of order", s.seed, f)
		}
		before = f.at
		if f.kind == apiServerDown && (f.lasts < 2*time.Second || f.lasts > longestOutage) {
			t.Errorf("seed %d: %s", s.seed, f)
		}
	}
}

func checkJobs(t *testing.T, s schedule) {
	t.Helper()
	for _, b := range s.batches {
		if b.at > faultWindow {
			t.Errorf("seed %d queues jobs after %s", s.seed, b.at)
		}
	}
	if s.jobs() != jobsPerRun+closureJobs {
		t.Errorf("seed %d has %d jobs", s.seed, s.jobs())
	}
	if s.settling.at != s.lastFault() {
		t.Errorf("seed %d: the last jobs come at %s, the last fault ends at %s", s.seed, s.settling.at, s.lastFault())
	}
	if s.minRunners >= s.maxRunners {
		t.Errorf("seed %d: minRunners %d, maxRunners %d", s.seed, s.minRunners, s.maxRunners)
	}
}
