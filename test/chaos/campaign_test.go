package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

// campaign hands out the seeds that the flags ask for. Ctrl-C ends it when the runs under way have finished, a second
// Ctrl-C immediately.
type campaign struct {
	began       time.Time
	interrupted context.Context

	mutex      sync.Mutex
	seed, last uint64
	passed     int
	failed     map[uint64][]string // the reasons, by seed
	checked    checked
}

func newCampaign() *campaign {
	c := &campaign{began: time.Now(), seed: *firstSeed, last: *firstSeed + *seeds - 1, failed: map[uint64][]string{}}
	if *oneSeed != 0 {
		c.seed, c.last = *oneSeed, *oneSeed
	}
	var usual context.CancelFunc
	c.interrupted, usual = signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(c.interrupted, func() {
		usual()
		fmt.Fprintln(os.Stderr, "interrupted: the runs under way are finished, which takes up to three minutes")
	})
	return c
}

// next returns the next seed and whether a run with it is to begin.
func (c *campaign) next() (seed uint64, more bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	seed = c.seed
	if *hours > 0 {
		more = time.Since(c.began).Hours() < *hours
	} else {
		more = seed <= c.last
	}
	c.seed++
	return seed, more && c.interrupted.Err() == nil
}

// done records how a run ended; nil is one that could not begin.
func (c *campaign) done(seed uint64, passed bool, ended *world) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var wrong []string
	if ended != nil {
		one, all := &ended.checked, &c.checked
		*all = checked{all.histories + one.histories, all.requests + one.requests, all.changes + one.changes,
			all.registrations + one.registrations, all.jobs + one.jobs}
		wrong = ended.wrong
	}
	if passed {
		c.passed++
		return
	}
	c.failed[seed] = wrong
}

// summary counts the results of all runs. It repeats the reasons of failures, for readers who see only the end of the
// output. A failed run without a reason could not begin or could not be taken down.
func (c *campaign) summary() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	text := fmt.Sprintf("%d runs in %s, %d failed",
		c.passed+len(c.failed), time.Since(c.began).Round(time.Second), len(c.failed))
	text += fmt.Sprintf("\nchecked against the rules of test/history: the histories of %d of %d runs, with %s",
		c.checked.histories, c.passed+len(c.failed), c.checked)
	for _, seed := range slices.Sorted(maps.Keys(c.failed)) {
		text += fmt.Sprintf("\nseed %d: %s", seed, strings.Join(c.failed[seed], "\n  "))
	}
	return text
}
