package scaling_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/effective"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
)

// TestNumbersInForceCount: the listener may have published with other numbers, those from before a window opened or
// closed.
func TestNumbersInForceCount(t *testing.T) {
	for name, test := range map[string]struct {
		spec        v1alpha1.EphemeralRunnerSetSpec
		numbers     effective.Numbers
		create, due int // beside four idle runners
	}{
		"a window has opened":               {v1alpha1.EphemeralRunnerSetSpec{Replicas: 4, AssignedJobs: 2}, inForce(20, 200), 18, 0},
		"it raises the maximum alone":       {v1alpha1.EphemeralRunnerSetSpec{Replicas: 10, AssignedJobs: 90}, inForce(0, 200), 86, 0},
		"a window has closed":               {v1alpha1.EphemeralRunnerSetSpec{Replicas: 21, AssignedJobs: 1}, inForce(0, 50), 0, 3},
		"it lowers the maximum":             {v1alpha1.EphemeralRunnerSetSpec{Replicas: 90, AssignedJobs: 90}, inForce(0, 3), 0, 1},
		"a listener that counts no jobs":    {v1alpha1.EphemeralRunnerSetSpec{Replicas: 6}, inForce(1, 50), 2, 0},
		"and the window is higher":          {v1alpha1.EphemeralRunnerSetSpec{Replicas: 6}, inForce(7, 50), 3, 0},
		"and the window is lower":           {v1alpha1.EphemeralRunnerSetSpec{Replicas: 6}, inForce(0, 3), 0, 1},
		"nobody asks for runners":           {v1alpha1.EphemeralRunnerSetSpec{}, inForce(7, 50), 0, 4},
		"the runner set's own maximum cuts": {v1alpha1.EphemeralRunnerSetSpec{AssignedJobs: 20, MaxRunners: new(6)}, inForce(0, 200), 2, 0},
	} {
		s := newScenario(0)
		s.add(4, idle)
		s.spec, s.numbers, s.unserved = test.spec, test.numbers, test.spec.AssignedJobs == 0
		if p := s.pass(); p.create != test.create || len(p.going()) != 0 {
			t.Errorf("%s: %d are created, %v go at once", name, p.create, names(p.going()))
		}
		s.patchID++
		s.later(surplusPatience)
		if p := s.pass(); len(p.going()) != test.due {
			t.Errorf("%s: %d were surplus", name, len(p.going()))
		}
	}
}

// newPlanned returns the scenario of a set of up to 100 runners that plans its capacity.
func newPlanned(planned v1alpha1.PlannedCapacity) *scenario {
	s := newScenario(0)
	s.spec, s.numbers, s.planned = v1alpha1.EphemeralRunnerSetSpec{}, inForce(0, 100), planned
	return s
}

// TestHeadroomFollowsRunningJobs: it is there while jobs run, within the maximum, and no job that waits counts for it.
func TestHeadroomFollowsRunningJobs(t *testing.T) {
	s := newPlanned(v1alpha1.PlannedCapacity{Headroom: &v1alpha1.Headroom{Percent: 20, Max: 3}})
	s.publish(6).add(6, idle)
	if p := s.pass(); p.create != 0 {
		t.Errorf("nothing runs, and %d are created", p.create)
	}
	for _, r := range s.runners {
		r.HadJob = true
	}
	if p := s.pass(); p.create != 2 {
		t.Errorf("six jobs run, and %d are created", p.create)
	}
	s.publish(30).add(30, busyOne)
	if p := s.pass(); p.create != 0 || s.Placing(p.Plan).Spare != 3 {
		t.Errorf("30 jobs are assigned: %d more are wanted, %d are created", s.Placing(p.Plan).Spare, p.create)
	}
	s.publish(99)
	if p := s.pass(); p.create != 100-36 {
		t.Errorf("at the maximum %d are created", p.create)
	}
}

// TestScaleDownDelay: a runner that is too many is kept for so long.
func TestScaleDownDelay(t *testing.T) {
	for _, delay := range []time.Duration{0, 30 * time.Second, 10 * time.Minute} {
		s := newPlanned(v1alpha1.PlannedCapacity{ScaleDownDelay: &metav1.Duration{Duration: delay}})
		s.add(1, busyOne)
		s.add(1, idle)
		s.publish(2).pass()
		s.later(time.Minute).publish(1).pass()
		if delay > 0 {
			if p := s.later(delay - time.Second).publish(1).pass(); len(p.going()) > 0 {
				t.Errorf("delay %s: %d go too early", delay, len(p.going()))
			}
		}
		if p := s.later(time.Second).publish(1).pass(); len(p.going()) != 1 {
			t.Errorf("delay %s: %d go", delay, len(p.going()))
		}
	}
}

// TestADrainedSetRunsWhatItHas: assigned jobs get their runners, and idle ones go after half a minute, however long
// they are kept otherwise.
func TestADrainedSetRunsWhatItHas(t *testing.T) {
	s := newPlanned(v1alpha1.PlannedCapacity{ScaleDownDelay: &metav1.Duration{Duration: time.Hour},
		Headroom: &v1alpha1.Headroom{Percent: 100}})
	s.numbers = inForce(3, 100)
	s.numbers.Drained = true
	s.add(1, busyOne)
	s.add(2, idle)
	if p := s.publish(2).pass(); p.create != 0 || s.Placing(p.Plan).Spare != 0 {
		t.Errorf("%d created, %d wanted beside those for jobs; want none", p.create, s.Placing(p.Plan).Spare)
	}
	if p := s.later(29 * time.Second).publish(2).pass(); len(p.going()) != 0 {
		t.Errorf("%v go before half a minute is over", names(p.going()))
	}
	s.later(2 * time.Second)
	if p := s.publish(2).pass(); len(p.going()) != 1 {
		t.Errorf("%d go, want 1", len(p.going()))
	}
	if p := s.publish(5).pass(); p.create != 2 {
		t.Errorf("%d are created for assigned jobs, want 2", p.create)
	}
}

// TestStartsPerMinute: never more in a minute, whatever becomes of the first, and after a restart those that there are
// count.
func TestStartsPerMinute(t *testing.T) {
	s := newPlanned(v1alpha1.PlannedCapacity{MaxStartsPerMinute: 5})
	start := func() int {
		p := s.pass()
		s.CountStarts(p.create)
		for range p.create {
			s.add(1, starting).Arrival = 1
		}
		return p.create
	}
	s.publish(20)
	if n := start(); n != 5 {
		t.Errorf("%d of 5 start", n)
	}
	s.runners = nil // they have ended
	s.later(50 * time.Second)
	if n := start(); n != 0 {
		t.Errorf("%d more start in the minute", n)
	}
	p := s.pass()
	held := meta.FindStatusCondition(s.status(p).Conditions, v1alpha1.ConditionStartsLimited)
	if held == nil || held.Status != metav1.ConditionTrue ||
		!strings.HasPrefix(held.Message, "maxStartsPerMinute of 5 holds") ||
		p.RequeueAt.IsZero() || p.RequeueAt.After(s.now.Add(12*time.Second)) {
		t.Errorf("condition %+v, again at %s", held, p.RequeueAt)
	}
	s.later(11 * time.Second)
	if n := start(); n != 5 {
		t.Errorf("%d of 5 start in the next minute", n)
	}
	after := newPlanned(s.planned)
	after.spec, after.now, after.runners, after.patchID = s.spec, s.now.Add(time.Second), s.runners, s.patchID
	for _, r := range after.runners {
		r.Arrival = 0 // this process has not created them
	}
	if p := after.pass(); p.create != 0 {
		t.Errorf("after a restart %d start in the same minute", p.create)
	}
}

// TestMaxIdleTime: the oldest idle runner is replaced, one at a time, also by a manager that has just started.
func TestMaxIdleTime(t *testing.T) {
	s := newPlanned(v1alpha1.PlannedCapacity{MaxIdleTime: &metav1.Duration{Duration: time.Hour}})
	s.numbers.Min = 3
	s.add(3, idle)
	if p := s.pass(); len(p.going()) > 0 || p.RequeueAt.IsZero() {
		t.Errorf("%d go at once, again at %s", len(p.going()), p.RequeueAt)
	}
	s.later(time.Hour).publish(0)
	if p := s.pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Errorf("%d are replaced at a time", len(p.With(scaling.Deregister)))
	}
	s.RememberAsked(s.runners[0], true)
	if p := s.pass(); len(p.With(scaling.Deregister)) != 0 {
		t.Errorf("%d more are replaced while one is on its way", len(p.With(scaling.Deregister)))
	}
	after := newPlanned(s.planned)
	after.spec, after.numbers, after.now, after.runners = s.spec, s.numbers, s.now, s.runners
	if p := after.pass(); len(p.With(scaling.Deregister)) != 1 {
		t.Errorf("a manager that has just started replaces %d", len(p.With(scaling.Deregister)))
	}
}

// One runner whose pod can't start doesn't keep the others from being replaced, as long as those in their places start.
func TestMaxIdleTimeGoesOnBesideAPendingPod(t *testing.T) {
	s := newPlanned(v1alpha1.PlannedCapacity{MaxIdleTime: &metav1.Duration{Duration: time.Hour}})
	s.numbers.Min = 4
	s.add(3, idle)
	s.later(time.Hour)
	replaced := func() int { return len(s.pass().With(scaling.Deregister)) }
	stuck := s.add(1, starting)
	stuck.CreatedAt = s.now
	s.publish(0)
	if p := s.pass(); len(p.With(scaling.Deregister)) != 0 || p.RequeueAt.IsZero() ||
		p.RequeueAt.After(s.now.Add(10*time.Minute)) {
		t.Errorf("%d are replaced while another one starts, again at %s", len(p.With(scaling.Deregister)), p.RequeueAt)
	}
	s.later(10 * time.Minute).publish(0)
	if n := replaced(); n != 1 {
		t.Errorf("%d are replaced beside a runner that can't start, want 1", n)
	}
	s.runners = s.runners[1:]
	next := s.add(1, starting)
	next.CreatedAt = s.now
	if n := replaced(); n != 0 {
		t.Errorf("%d are replaced while the last one's place starts", n)
	}
	s.later(time.Hour).publish(0)
	if n := replaced(); n != 0 {
		t.Errorf("%d are replaced although the last one's place doesn't start", n)
	}
	next.Phase = v1alpha1.EphemeralRunnerPhaseRunning
	s.publish(0)
	if n := replaced(); n != 1 {
		t.Errorf("%d are replaced after the last one's place has started, want 1", n)
	}
}
