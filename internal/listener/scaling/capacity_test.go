package scaling_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/scaling"
)

// opened is the time at which a session is opened.
var opened = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestWhatIsAnnounced(t *testing.T) {
	for name, test := range map[string]struct {
		places        bool
		said          *int
		most, running int
		want          int
	}{
		"maxRunners":                       {most: 40, want: 40},
		"what a sick set says":             {said: new(3), most: 40, want: 3},
		"nothing said yet":                 {places: true, most: 40, want: 10},
		"nothing said yet, small":          {places: true, most: 4, want: 4},
		"nothing said yet, without limit":  {places: true, most: 1<<31 - 1, want: 10},
		"what it says":                     {places: true, said: new(25), most: 40, want: 25},
		"never more than maxRunners":       {places: true, said: new(99), most: 40, want: 40},
		"one more than run":                {places: true, said: new(5), most: 40, running: 20, want: 21},
		"never 0 though the status says 0": {places: true, said: new(0), most: 40, want: 1},
		"not even then":                    {places: true, said: new(5), most: 20, running: 20, want: 20},
		"absurd figures":                   {places: true, said: new(-7), most: 40, running: 1 << 62, want: 40},
	} {
		s := scaling.New(0, test.most, 0)
		s.Statistics.TotalRunningJobs = test.running
		c := scaling.Capacity{Places: test.places}
		c.Observe(test.said, opened)
		if got := c.Jobs(s); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// The first poll of a session waits for what the set says, but not for long.
func TestFirstPollWaitsForTheSet(t *testing.T) {
	s := scaling.New(0, 40, 0)
	c := scaling.Capacity{Places: true}
	c.Observe(nil, opened.Add(-time.Minute))
	c.Opened(opened)
	if due := c.ReadAt(s, opened); due.After(opened) {
		t.Errorf("it is read at %s", due)
	}
	c.Ask(opened)
	c.Observe(nil, opened)
	if due := c.ReadAt(s, opened); !due.Equal(opened.Add(time.Second)) ||
		!c.AwaitedUntil().Equal(opened.Add(10*time.Second)) {
		t.Errorf("it is read again at %s, and awaited until %s", due, c.AwaitedUntil())
	}
	if due := c.ReadAt(s, opened.Add(10*time.Second)); !due.IsZero() {
		t.Errorf("after ten seconds it is read again at %s", due)
	}
	c.Observe(new(12), opened.Add(2*time.Second))
	if until := c.AwaitedUntil(); !until.IsZero() {
		t.Errorf("it has said something, and the poll waits until %s", until)
	}
	c.Opened(opened.Add(time.Hour)) // the next session
	if until := c.AwaitedUntil(); !until.Equal(opened.Add(time.Hour + 10*time.Second)) {
		t.Errorf("the next session's first poll waits until %s", until)
	}
}

// While all that is announced is assigned, the set is read 12 times a minute and later 4 times; otherwise not at all.
func TestTheSetIsReadWhileAllThatIsAnnouncedIsAssigned(t *testing.T) {
	for name, test := range map[string]struct {
		places    bool
		assigned  int
		most      int
		published time.Duration // every so often
		want      [2]int        // in the first minute, and in the tenth
	}{
		"all assigned":                 {true, 20, 40, 0, [2]int{11, 4}},
		"room is left":                 {true, 19, 40, 0, [2]int{}},
		"maxRunners is announced":      {true, 20, 20, 0, [2]int{}},
		"publications say it, too":     {true, 20, 40, 3 * time.Second, [2]int{}},
		"they come slower than asking": {true, 20, 40, 20 * time.Second, [2]int{9, 3}},
		"it places no jobs":            {false, 20, 40, 0, [2]int{}},
	} {
		s := scaling.New(0, test.most, 0)
		s.Observe(&actions.Statistics{TotalAssignedJobs: test.assigned}, opened)
		c := scaling.Capacity{Places: test.places}
		c.Opened(opened)
		c.Observe(new(20), opened)
		reads := [2]int{}
		for second := 1; second <= 600; second++ {
			now := opened.Add(time.Duration(second) * time.Second)
			if test.published > 0 && second%int(test.published/time.Second) == 0 {
				c.Observe(new(20), now)
			}
			if due := c.ReadAt(s, now); due.IsZero() || due.After(now) {
				continue
			}
			c.Ask(now)
			c.Observe(new(20), now)
			if second <= 60 {
				reads[0]++
			} else if second > 540 {
				reads[1]++
			}
		}
		if reads != test.want {
			t.Errorf("%s: %v reads, want %v", name, reads, test.want)
		}
	}
}
