//go:build !race

package rig

// raceEnabled says that this test binary has no race detector.
const raceEnabled = false
