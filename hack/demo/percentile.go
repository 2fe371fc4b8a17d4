package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// percentile returns the smallest measured value that at least the given share of all values does not exceed (nearest
// rank), zero if nothing was measured.
func percentile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// seconds formats a duration as everywhere in the demonstration's output.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
