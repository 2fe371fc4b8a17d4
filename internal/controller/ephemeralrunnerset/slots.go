package ephemeralrunnerset

const (
	// slotFree: another runner may be created for the job, if there is one.
	slotFree slot = iota
	// slotWaiting: the runner is waiting for a job.
	slotWaiting
	// slotWorking: it has a job.
	slotWorking
	// slotHeld: its job may still be counted in replicas, so the runner is neither missing nor surplus.
	slotHeld
)
