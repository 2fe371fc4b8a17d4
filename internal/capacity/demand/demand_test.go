package demand_test

import (
	"math"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/capacity/demand"
)

var epoch = time.Unix(1_800_000_000, 0)

func TestWanted(t *testing.T) {
	percent := demand.Headroom{Percent: 20, Max: 30}
	for name, test := range map[string]struct {
		asked        demand.Asked
		idle, wanted int
	}{
		"nothing":                      {demand.Asked{Max: 10}, 0, 0},
		"as without headroom":          {demand.Asked{Assigned: 3, Running: 3, Min: 2, Max: 10}, 2, 5},
		"headroom, none while idle":    {demand.Asked{Assigned: 5, Headroom: percent, Max: 100}, 0, 5},
		"headroom, rounded up":         {demand.Asked{Assigned: 5, Running: 1, Headroom: percent, Max: 100}, 1, 6},
		"headroom of 10":               {demand.Asked{Assigned: 10, Running: 10, Headroom: percent, Max: 100}, 2, 12},
		"headroom of 11":               {demand.Asked{Assigned: 11, Running: 11, Headroom: percent, Max: 100}, 3, 14},
		"headroom, at most 30":         {demand.Asked{Assigned: 1000, Running: 1000, Headroom: percent, Max: 5000}, 30, 1030},
		"headroom without a most":      {demand.Asked{Assigned: 1000, Running: 1000, Headroom: demand.Headroom{Percent: 20}, Max: 5000}, 200, 1200},
		"the larger, minRunners":       {demand.Asked{Assigned: 10, Running: 10, Min: 7, Headroom: percent, Max: 100}, 7, 17},
		"never above the maximum":      {demand.Asked{Assigned: 10, Running: 10, Min: 7, Headroom: percent, Max: 11}, 7, 11},
		"jobs that have just ended":    {demand.Asked{Assigned: 5, Running: 50, Headroom: percent, Max: 100}, 1, 6},
		"drained":                      {demand.Asked{Assigned: 4, Running: 3, Min: 7, Headroom: percent, Max: 100, Drained: true}, 0, 4},
		"drained, above the maximum":   {demand.Asked{Assigned: 4, Max: 3, Drained: true}, 0, 3},
		"nobody serves it":             {demand.Asked{Min: 7, Max: 10, Unserved: true}, 7, 0},
		"somebody else does":           {demand.Asked{Min: 2, Max: 10, Unserved: true, Replicas: 5}, 2, 5},
		"who counts jobs, too":         {demand.Asked{Assigned: 4, Max: 10, Unserved: true, Replicas: 5}, 0, 5},
		"and asks for too many":        {demand.Asked{Min: 2, Max: 10, Unserved: true, Replicas: 50}, 2, 10},
		"a count that would overflow":  {demand.Asked{Assigned: math.MaxInt, Min: 5, Max: 10}, 5, 10},
		"figures that nobody can mean": {demand.Asked{Assigned: -4, Running: -3, Min: -7, Max: -1, Headroom: demand.Headroom{Percent: -1, Max: -1}}, 0, 0},
	} {
		if idle, wanted := test.asked.Idle(), test.asked.Wanted(); idle != test.idle || wanted != test.wanted {
			t.Errorf("%s: %d idle, %d wanted", name, idle, wanted)
		}
	}
}

func TestSurplus(t *testing.T) {
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	var clocks demand.Surplus
	for _, step := range []struct{ second, surplus, figures, due, next int }{
		{0, 2, 0, 0, 30},
		{10, 3, 10, 0, 30},
		{30, 3, 10, 0, 40}, // two have been too many for long enough, but by old figures
		{31, 3, 31, 2, 40},
		{32, 1, 32, 1, 0}, // the youngest clocks stop
		{33, 0, 33, 0, 0},
		{34, 1, 34, 0, 64}, // and begin anew
		{64, 1, 64, 1, 0},
		{65, -3, 65, 0, 0},
	} {
		var due int
		var next time.Time
		clocks, due, next = clocks.Next(step.surplus, demand.DefaultScaleDownDelay, at(step.figures), at(step.second))
		if due != step.due || next.IsZero() != (step.next == 0) || (step.next > 0 && !next.Equal(at(step.next))) {
			t.Errorf("%+v: %d are due, next %s", step, due, next)
		}
	}
	if _, due, _ := demand.Surplus(nil).Next(3, 0, epoch, epoch); due != 3 {
		t.Errorf("without a delay %d of 3 are due", due)
	}
}

func TestTooOld(t *testing.T) {
	since := []time.Time{epoch.Add(time.Hour), epoch, epoch.Add(2 * time.Hour)}
	for name, test := range map[string]struct {
		idle    []time.Time
		settled bool
		most    time.Duration
		now     time.Duration
		index   int // -1: none
		next    time.Duration
	}{
		"never":          {since, true, 0, 99 * time.Hour, -1, 0},
		"not yet":        {since, true, 10 * time.Hour, 9 * time.Hour, -1, 10 * time.Hour},
		"the oldest":     {since, true, 10 * time.Hour, 99 * time.Hour, 1, 0},
		"one at a time":  {since, false, 10 * time.Hour, 99 * time.Hour, -1, 0},
		"none are idle":  {nil, true, 10 * time.Hour, 99 * time.Hour, -1, 0},
		"at that moment": {since, true, 10 * time.Hour, 10 * time.Hour, 1, 0},
	} {
		index, found, next := demand.TooOld(test.idle, test.settled, test.most, epoch.Add(test.now))
		if found != (test.index >= 0) || (found && index != test.index) || next.IsZero() != (test.next == 0) ||
			(test.next > 0 && !next.Equal(epoch.Add(test.next))) {
			t.Errorf("%s: %d, %v, %s", name, index, found, next)
		}
	}
}

func TestPace(t *testing.T) {
	now := epoch.Add(900 * time.Millisecond)
	var pace demand.Pace
	if n, _ := pace.Allowed(0, now); n != math.MaxInt {
		t.Errorf("without a limit %d are allowed", n)
	}
	pace.Start(3, now, now)
	pace.Start(4, now.Add(-30*time.Second), now)       // of a manager before
	pace.Start(5, now.Add(-2*time.Minute), now)        // long ago
	pace.Start(1, now.Add(2*time.Second), now)         // by a clock that is ahead
	for after, want := range map[time.Duration][2]int{ // n, and the second in which there are more
		0: {2, 31}, 30 * time.Second: {2, 31}, 31 * time.Second: {6, 61}, 60 * time.Second: {6, 61},
		61 * time.Second: {10, 0},
	} {
		n, more := pace.Allowed(10, now.Add(after))
		if n != want[0] || more.IsZero() != (want[1] == 0) ||
			(want[1] > 0 && !more.Equal(epoch.Add(time.Duration(want[1])*time.Second))) {
			t.Errorf("%s later: %d, more at %s", after, n, more)
		}
	}
	if n, _ := pace.Allowed(5, now); n != 0 {
		t.Errorf("of a smaller limit %d are allowed", n)
	}
	for _, jump := range []time.Duration{-10 * time.Hour, 10 * time.Hour} {
		if n, _ := pace.Allowed(10, now.Add(jump)); n != 10 {
			t.Errorf("after the clock has jumped by %s %d are allowed", jump, n)
		}
	}
}
