// Package demand decides the number of runners of a set, the pace at which it may get them, when it has had too many
// for long enough, and which idle one is too old. It is pure: what has to be remembered between decisions is passed in,
// and a manager that has lost it only waits longer.
package demand

// Headroom keeps runners idle in proportion to the running jobs. The zero value keeps none.
type Headroom struct {
	// Percent is of the running jobs, rounded up. Max limits the idle runners; 0 means any number.
	Percent, Max int
}

// Asked has all from which the wanted number of runners follows.
type Asked struct {
	// Assigned counts the jobs that GitHub has given to the set, and Running those of them that have a runner at work.
	Assigned, Running int
	// Min and Max are the numbers in force: so many runners are kept idle at least, and so many exist at most.
	Min, Max int
	Headroom Headroom
	// Unserved: no listener of ours has a session for the set. The listener of another cluster or product has it, and asks
	// for so many Replicas.
	Unserved bool
	Replicas int
	// Drained: the set takes no further jobs, and runs those that it has.
	Drained bool
}

// Idle returns the number of runners that are wanted beside those for assigned jobs.
func (a Asked) Idle() int {
	if a.Drained {
		return 0
	}
	running := max(0, min(a.Running, a.Assigned)) // a job that has ended may still be seen to run
	headroom := (running*max(0, a.Headroom.Percent) + 99) / 100
	if a.Headroom.Max > 0 {
		headroom = min(headroom, a.Headroom.Max)
	}
	return max(0, a.Min, headroom)
}

// Wanted returns the number of runners that there are to be. A job that is assigned can't be given back, so it has its
// runner in a drained set, too. Nobody brings jobs to a set that is not served and for which nobody asks for any
// runner. A listener that asks for some may never give the number of jobs, as ARC's never does: then its own sum
// counts, too.
func (a Asked) Wanted() int {
	most := max(0, a.Max)
	wanted := min(max(0, min(a.Assigned, most))+a.Idle(), most)
	switch {
	case !a.Unserved || a.Drained:
		return wanted
	case a.Replicas <= 0 && a.Assigned <= 0:
		return 0
	}
	return max(wanted, min(a.Replicas, most))
}
