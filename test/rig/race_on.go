//go:build race

package rig

// raceEnabled reports whether this test binary has the race detector; the programs are built accordingly.
const raceEnabled = true
