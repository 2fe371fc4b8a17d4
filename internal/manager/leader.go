package manager

import "time"

// Times of the leader's election. Candidates look every 1 to 2.2 s, which is leaseRetryPeriod with client-go's jitter: one
// sees the last renewal at most 2.2 s late, and the end of the Lease at most 2.2 s late. So a leader that was killed is
// missed for 9 + 2·2.2 = 13.4 s at most, where the usual 15 and 2 s make it 23.8 s.
const (
	leaseDuration    = 9 * time.Second
	leaseRetryPeriod = time.Second
	// leaseRenewDeadline ends a leader that can't renew its Lease, 1 + 6 s after it last did: 2 s before another may begin.
	leaseRenewDeadline = 6 * time.Second
)
