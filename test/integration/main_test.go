// Package integration tests the product as a whole: real charts, manager and listener on a real API server, against a
// GitHub and a node that are played (package rig). Each test has its own installation.
package integration

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/harrier-ci/harrier/test/rig"
)

// Unless -parallel says otherwise, twice as many tests run at a time as there are processors: a test waits for three
// quarters of its time (58 tests: 3,460 s in all, 818 s of CPU with the race detector and all programs).
func TestMain(m *testing.M) {
	parallel := strconv.Itoa(2 * runtime.NumCPU())
	flag.Parse()
	flag.Visit(func(given *flag.Flag) {
		if given.Name == "test.parallel" {
			parallel = given.Value.String()
		}
	})
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(rig.Main(m))
}
