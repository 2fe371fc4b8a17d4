package placement_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/capacity/placement"
)

// TestGrowth: with jobs waiting, a cluster that holds them is given all of them soon.
func TestGrowth(t *testing.T) {
	for _, most := range []int{100, 400, 2000, 5000} {
		s := newSimulation(1)
		one := s.add(ruled, cluster{slots: fixed(most)})
		one.max = most
		s.burst(1, 2*most, 2*hour, 2*hour)
		for s.second < hour && one.decision.Announced < most {
			s.run(s.second + 1)
		}
		allowed := int(math.Ceil(math.Log(float64(most)/40)/math.Log(1.25))) + 5
		if one.decision.Announced < most || one.changes > allowed {
			t.Errorf("nodes at once: %d of %d are announced after %d s and %d changes, want at most %d changes",
				one.decision.Announced, most, s.second, one.changes, allowed)
		}

		s = newSimulation(1)
		one = s.add(ruled, scaled(fixed(most)))
		one.max = most
		s.burst(1, 2*most, 2*hour, 2*hour)
		for s.second < hour && one.decision.Announced < most {
			s.run(s.second + 1)
		}
		rounds := int(math.Ceil(math.Log(float64(most)/10)/math.Log(4))) + 2
		if one.decision.Announced < most || s.second > rounds*200 { // nodes come after 200 s at most
			t.Errorf("nodes after minutes: %d of %d are announced after %d s, want %d rounds",
				one.decision.Announced, most,
				s.second, rounds)
		}
	}
}

// TestOdd: pods that never find a node don't hold a set back whose other pods do.
func TestOdd(t *testing.T) {
	s := newSimulation(1)
	one := s.add(ruled, cluster{slots: fixed(1000), oddAt: []int{1, 1, 1, 30, 31, 500, 501, 1000, 1001}})
	s.burst(1, 2000, 60, 600)
	s.burst(2*hour, 20000, 60, 600) // after an hour and more without jobs
	reached := 0
	for s.second < 3*hour {
		s.run(s.second + 1)
		switch {
		case one.decision.Announced < one.max:
			reached = 0
		case reached == 0:
			reached = s.second
		}
	}
	if len(one.oddAt) > 0 || reached == 0 || reached > 2*hour+300 {
		t.Errorf("all are announced since second %d, want it five minutes after jobs came again: %+v", reached,
			one.decision)
	}
}

// TestProbes: a cluster that places nothing more is given one more job after one, two, four and eight timeouts, and no
// others.
func TestProbes(t *testing.T) {
	h := newHistory(1)
	h.seen.Max = 1000
	add := func(placed bool) {
		h.made++
		pod := placement.Pod{CreatedAt: h.now}
		if placed {
			pod.PlacedAt = h.now
		}
		h.set(types.UID(fmt.Sprint(h.made)), pod)
		h.seen.Assigned++
	}
	for range 50 {
		add(true)
	}
	h.seen.Working = 50
	h.decide()
	var failing time.Time
	before := 0
	for end := h.now.Add(72 * time.Hour); h.now.Before(end); h.pass(30 * time.Second) {
		for h.decide(); h.seen.Assigned < h.last.Announced; h.decide() {
			add(false)
		}
		if !h.last.Failed {
			continue
		}
		if failing.IsZero() {
			failing, before = h.now, h.seen.Assigned
		}
		passed := h.now.Sub(failing).Seconds() / h.seen.Timeout.Seconds()
		if in := h.seen.Assigned - before; float64(in) > 2+math.Log2(max(1, passed)) {
			t.Fatalf("%d jobs were let in within %.1f timeouts", in, passed)
		}
	}
	if in := h.seen.Assigned - before; failing.IsZero() || in < 5 {
		t.Errorf("%d jobs were let in within three days, so nobody would notice that there are nodes again", in)
	}
	if h.last.Announced > before+10 || h.last.Cause != placement.PodsWait || h.last.ProbeAt.IsZero() {
		t.Errorf("%+v", h.last)
	}
}

// TestRestart: a new manager announces the number that the last one did, and goes on from its mark.
func TestRestart(t *testing.T) {
	s := newSimulation(1)
	one := s.add(ruled, cluster{slots: fixed(100)})
	s.burst(1, 300, 2*hour, 2*hour)
	s.run(1000)
	state := one.decision.State
	memory := placement.Remember(&state, moment(1000))
	for id, pod := range one.live {
		memory.See(id, pod, moment(1000))
	}
	after := memory.Decide(placement.Seen{Now: moment(1000), Working: one.working, Assigned: one.assigned, Max: one.max,
		Timeout: placement.DefaultTimeout})
	if after.Announced != state.Announced || after.Mark != 100 || after.Limit > one.decision.Limit {
		t.Errorf("before %+v, after %+v", one.decision, after)
	}
}

// TestCauses: what is said of a set that announces less than its maximum.
func TestCauses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*history)
		want   placement.Cause
	}{
		"nothing known":         {func(*history) {}, placement.Unproven},
		"a small maximum":       {func(h *history) { h.seen.Max = 3 }, placement.Everything},
		"runners fail":          {func(h *history) { h.seen.Failing = true }, placement.RunnersFail},
		"runners are rejected":  {func(h *history) { h.seen.Rejected = true }, placement.RunnersFail},
		"a quota":               {func(h *history) { h.seen.RefusedSince = h.now.Add(-time.Minute) }, placement.PodsRefused},
		"pods without nodes":    {func(h *history) { h.set("1", placement.Pod{CreatedAt: h.now.Add(-2 * time.Minute)}) }, placement.PodsWait},
		"pods that wait for 1s": {func(h *history) { h.set("1", placement.Pod{CreatedAt: h.now.Add(-time.Second)}) }, placement.Unproven},
	} {
		h := newHistory(1)
		h.seen.Max = 100
		test.change(h)
		if h.decide(); h.last.Cause != test.want {
			t.Errorf("%s: %+v", name, h.last)
		}
	}
}

// BenchmarkEvent has a set of 10 and one of 5,000 pods, half of which wait, take in that one pod has gone and another
// one has come.
func BenchmarkEvent(b *testing.B) {
	for _, pods := range []int{10, 5000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			m := placement.Remember(nil, epoch)
			ids := make([]types.UID, pods)
			for i := range ids {
				ids[i] = types.UID(fmt.Sprint(i))
				pod := placement.Pod{CreatedAt: moment(i)}
				if i%2 == 0 {
					pod.PlacedAt = moment(i + 1)
				}
				m.See(ids[i], pod, moment(i))
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				now := moment(pods + n)
				m.Forget(ids[n%pods], now)
				m.See(ids[n%pods], placement.Pod{CreatedAt: now}, now)
				m.See(ids[n%pods], placement.Pod{CreatedAt: now, PlacedAt: now.Add(time.Second)}, now)
				m.Decide(placement.Seen{Now: now, Working: pods / 2, Assigned: pods, Max: 2 * pods,
					Timeout: placement.DefaultTimeout})
			}
		})
	}
}
