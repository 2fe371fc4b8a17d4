package requeue

import "time"

// Backoff returns first·2ⁿ⁻¹ after n failures in a row, capped at longest; 0 for n = 0.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	const doublings = 20 // a minute, doubled 20 times, is 2⁵⁶ ns, which fits
	return min(first<<min(failures-1, doublings), longest)
}
