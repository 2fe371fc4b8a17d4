package manager

import "time"

// Durations of leader election. Candidates check the Lease every 1 to 2.2 s, which is leaseRetryPeriod with client-go's jitter:
// they see the last renewal at most 2.2 s late, and the end of the Lease at most 2.2 s late. So a leader that was killed is
// replaced after at most 9 + 2·2.2 = 13.4 s; client-go's defaults of 15 and 2 s would make that 23.8 s.
const (
	leaseDuration    = 9 * time.Second
	leaseRetryPeriod = time.Second
	// leaseRenewDeadline ends a leader that can't renew its Lease, 1 + 6 s after the last renewal: 2 s before another may lead.
	leaseRenewDeadline = 6 * time.Second
)
