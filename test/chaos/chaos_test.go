package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/test/rig"
)

var (
	oneSeed   = flag.Uint64("chaos.seed", 0, "run this seed only")
	seeds     = flag.Uint64("chaos.seeds", 1, "the number of seeds to run") // make chaos runs more
	firstSeed = flag.Uint64("chaos.first", 1, "the first of the seeds")
	hours     = flag.Float64("chaos.hours", 0,
		"for how many hours to begin runs with new seeds, instead of -chaos.seeds")
)

// logsVariable names the environment variable with the directory for the logs of the programs; see package rig.
const logsVariable = "HARRIER_RIG_LOGS"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

// runTests saves the programs' logs to a new directory, unless the environment names one, and removes it if all tests
// pass.
func runTests(m *testing.M) int {
	if os.Getenv(logsVariable) != "" {
		return rig.MainWithWrongClocks(m)
	}
	directory, err := os.MkdirTemp("", "chaos-logs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for logs:", err)
		return 1
	}
	if err := os.Setenv(logsVariable, directory); err != nil {
		fmt.Fprintln(os.Stderr, "name the directory for logs:", err)
		return 1
	}
	code := rig.MainWithWrongClocks(m)
	if code == 0 {
		_ = os.RemoveAll(directory)
	}
	return code
}

// Whatever goes wrong, every job ends exactly once, nothing is left, and the limits hold.
func TestChaos(t *testing.T) {
	c := newCampaign()
	var runs sync.WaitGroup
	for range flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int) {
		runs.Go(func() {
			for seed, more := c.next(); more; seed, more = c.next() {
				var ended *world
				passed := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { ended = run(t, newSchedule(seed)) })
				c.done(seed, passed, ended)
			}
		})
	}
	runs.Wait()
	t.Log(c.summary())
}

// While 200 jobs run, the manager gets a second one beside it and loses it again.
func TestScaledInBurst(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	run(t, schedule{
		seed: 1, maxRunners: 100, managers: 1,
		faults:  []fault{{kind: scaleManagers, variant: scaledByHand, at: 5 * time.Second, lasts: 15 * time.Second}},
		batches: []batch{{durations: jobDurations(random, 200, time.Second, 5*time.Second)}},
		settling: batch{at: 20 * time.Second,
			durations: jobDurations(random, settlingJobs, 12*time.Second, 16*time.Second)},
	})
}

// run makes one run and returns its world, with the reasons why it failed and what was checked.
func run(t *testing.T, s schedule) *world {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat the run: make chaos SEED=%d; logs are in %s\n%s", s.seed, os.Getenv(logsVariable), s)
		}
	})
	w := newWorld(t, s)
	ctx, stop := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.observer.run(ctx)
	}()
	defer func() { stop(); <-watched }()
	w.play()
	w.checkSettles()
	w.checkJobs()
	w.checkNothingLeft("the jobs")
	w.checkClaims()
	w.checkScalesDown()
	w.checkGoroutines()
	w.checkLimits()
	w.checkClocks()
	w.checkHistory()
	return w
}
