//go:build !rig

package wallclock

import "k8s.io/utils/clock"

// System returns the machine's clock.
func System() Clock { return clock.RealClock{} }
