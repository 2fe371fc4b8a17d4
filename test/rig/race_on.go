//go:build race

package rig

// raceEnabled says that this test binary has the race detector; the programs get it, too.
const raceEnabled = true
