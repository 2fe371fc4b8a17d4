package chaos

import (
	"reflect"
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
	seen, variants := map[kind]int{}, map[string]int{}
	for seed := range uint64(500) {
		s := newSchedule(seed)
		checkFaults(t, s)
		checkJobs(t, s)
		for _, f := range s.faults {
			seen[f.kind]++
			variants[string(f.kind)+f.variant]++
		}
	}
	for _, p := range profiles {
		if seen[p.kind] == 0 {
			t.Errorf("500 schedules have no fault %q", p.kind)
		}
		for _, variant := range p.variants {
			if variants[string(p.kind)+variant] == 0 {
				t.Errorf("500 schedules have no fault %q of variant %q", p.kind, variant)
			}
		}
	}
}

func checkFaults(t *testing.T, s schedule) {
	t.Helper()
	if len(s.faults) != faultsPerRun {
		t.Errorf("seed %d has %d faults", s.seed, len(s.faults))
	}
	var before time.Duration
	for _, f := range s.faults {
		if f.at < firstFault || f.end() > faultWindow {
			t.Errorf("seed %d: %s is outside of the minute", s.seed, f)
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
	jobs := len(s.settling.durations)
	for _, b := range s.batches {
		jobs += len(b.durations)
		if b.at > faultWindow {
			t.Errorf("seed %d queues jobs after %s", s.seed, b.at)
		}
	}
	if jobs != jobsPerRun {
		t.Errorf("seed %d has %d jobs", s.seed, jobs)
	}
	if s.settling.at != s.lastFault() {
		t.Errorf("seed %d: the last jobs come at %s, the last fault ends at %s", s.seed, s.settling.at, s.lastFault())
	}
	if s.minRunners >= s.maxRunners {
		t.Errorf("seed %d: minRunners %d, maxRunners %d", s.seed, s.minRunners, s.maxRunners)
	}
}
