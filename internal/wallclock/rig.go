//go:build rig

package wallclock

import (
	"fmt"
	"os"
	"time"

	"k8s.io/utils/clock"
)

// offsetVariable names the environment variable with the duration by which the clock is ahead; a negative one sets it
// back.
const offsetVariable = "RIG_CLOCK_OFFSET"

// System returns a clock that is wrong by what the environment says. It says so on stderr, so that a test can tell that
// the program has such a clock.
func System() Clock {
	given := os.Getenv(offsetVariable)
	if given == "" {
		return clock.RealClock{}
	}
	by, err := time.ParseDuration(given)
	if err != nil {
		panic(offsetVariable + ": " + err.Error())
	}
	fmt.Fprintf(os.Stderr, "the clock is set wrong by %s\n", by)
	return ahead{by: by}
}
