package chaos

import (
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

// seedsOfCI is how many seeds .ci/run runs.
const seedsOfCI = 20

func TestTheSeedsOfCIHaveEveryFault(t *testing.T) {
	seen, leaderKilled, fromOne, clocks, cutOff := map[string]int{}, 0, 0, map[time.Duration]int{}, map[string]int{}
	for seed := range uint64(seedsOfCI) {
		s := newSchedule(seed + 1)
		clocks[s.gitHubAhead]++
		for _, f := range s.faults {
			seen[string(f.kind)]++
			seen[string(f.kind)+f.variant]++
			if f.kind == killManager && f.variant == ofLeader && s.managers > 1 {
				leaderKilled++
			}
			if f.kind == scaleManagers && s.managers == 1 && s.audited() {
				fromOne++
			}
			if f.kind == cutOffLeader && s.audited() {
				cutOff[f.variant]++
			}
		}
	}
	for _, p := range slices.Concat(profiles, questions) {
		for _, variant := range append([]string{""}, p.variants...) {
			if seen[string(p.kind)+variant] == 0 {
				t.Errorf("no seed has the fault %q of variant %q", p.kind, variant)
			}
		}
	}
	if leaderKilled == 0 {
		t.Error("no seed kills the leader of two managers")
	}
	if fromOne == 0 {
		t.Error("no seed whose history is checked goes from one manager to two and back")
	}
	if len(cutOff) < len(severances) {
		t.Errorf("seeds whose history is checked cut off the leader by: %v", cutOff)
	}
	if len(clocks) < 3 {
		t.Errorf("GitHub's clock is ahead by: %v", clocks)
	}
}

func checkFaults(t *testing.T, s schedule) {
	t.Helper()
	if asked := len(s.faults) - faultsPerRun; asked < len(questions)-1 || asked > len(questions) {
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
	if s.jobs() != jobsPerRun {
		t.Errorf("seed %d has %d jobs", s.seed, s.jobs())
	}
	if s.settling.at != s.lastFault() {
		t.Errorf("seed %d: the last jobs come at %s, the last fault ends at %s", s.seed, s.settling.at, s.lastFault())
	}
	if s.minRunners >= s.maxRunners {
		t.Errorf("seed %d: minRunners %d, maxRunners %d", s.seed, s.minRunners, s.maxRunners)
	}
}
