package failpoints

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	seed = flag.Uint64("failpoints.seed", 1, "which runs are drawn")
	most = flag.Int("failpoints.runs", 5, "runs of each scenario with one fault, drawn by the seed; 0 means all, -1 none")
	both = flag.Int("failpoints.pairs", 0, "runs of each scenario with two faults, drawn by the seed")
	only = flag.String("failpoints.scenario", "", "a regular expression for the scenarios to run")
	once = flag.String("failpoints.fault", "", "a regular expression for the faults to run, such as \"create pods: dies\"")
)

// workers is the number of bubbles at a time: the machine of the gate has two cores.
const workers = 2

func TestEveryEffectIsAPlaceToDie(t *testing.T) {
	var found table
	for _, s := range slices.Concat(lives, modes, changes, troubles, outside, takeovers) {
		if !chosen(s) {
			continue
		}
		t.Run(s.name, func(t *testing.T) { found.add(s.name, tryAll(t, s)) })
	}
	fmt.Fprintf(os.Stdout, "seed %d\n%s", *seed, found.text())
	if *only == "" {
		found.check(t)
	}
}

// chosen reports whether a scenario is to be run.
func chosen(s scenario) bool {
	return *only == "" || regexp.MustCompile("^(?:"+*only+")$").MatchString(s.name)
}

// tryAll runs a scenario as it is, and then with each fault that was drawn.
func tryAll(t *testing.T, s scenario) counts {
	begun := time.Now()
	base := inWorld(t, s)
	if len(base.violations) > 0 {
		t.Fatalf("without a fault: %s", strings.Join(base.violations, "; "))
	}
	plans, all := plansFor(base)
	c := counts{effects: len(base.effects), ends: all, runs: 1 + len(plans)}
	var mu sync.Mutex
	queue := slices.Clone(plans)
	t.Run("faults", func(t *testing.T) {
		for worker := range workers {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for {
					mu.Lock()
					if len(queue) == 0 {
						mu.Unlock()
						return
					}
					plan := queue[0]
					queue = queue[1:]
					mu.Unlock()
					r := inWorld(t, s, plan...)
					mu.Lock()
					c.reached += len(r.reached)
					mu.Unlock()
					for _, violation := range append(r.violations, compare(base, r)...) {
						t.Errorf("%s, %v: %s", s.name, plan, violation)
					}
				}
			})
		}
	})
	c.took = time.Since(begun)
	return c
}

// plansFor returns the faults of each run, and how many there could be with one fault each.
func plansFor(base result) (plans [][]fault, all int) {
	var single []fault
	wanted := regexp.MustCompile(*once)
	for _, e := range base.effects {
		for _, how := range e.ends() {
			if f := (fault{e.name, how}); wanted.MatchString(f.String()) {
				single = append(single, f)
			}
		}
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	drawn := slices.Clone(single)
	random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	switch {
	case *most > 0:
		drawn = drawn[:min(*most, len(drawn))]
	case *most < 0:
		drawn = nil
	}
	for _, f := range drawn {
		plans = append(plans, []fault{f})
	}
	for range min(*both, len(single)) {
		plans = append(plans, []fault{single[random.IntN(len(single))], single[random.IntN(len(single))]})
	}
	return plans, len(single)
}

// compare holds a run with faults against the one without: what is said at rest is the same, and it took no storm.
func compare(base, r result) (violations []string) {
	const steady, more = 2, 80
	if r.total > steady*base.total+more {
		violations = append(violations, fmt.Sprintf("%d effects until rest, %d without a fault", r.total, base.total))
	}
	if len(r.violations) == 0 {
		if diff := cmp.Diff(base.rests, r.rests); diff != "" {
			violations = append(violations, "at rest (-without a fault +with it):\n"+diff)
		}
	}
	return violations
}
