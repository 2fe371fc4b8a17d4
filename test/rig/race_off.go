//go:build !race

package rig

// raceEnabled reports whether this test binary has no race detector.
const raceEnabled = false
