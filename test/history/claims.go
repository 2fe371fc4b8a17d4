package history

import (
	"math"
	"slices"
)

// claims has the replay's knowledge of claims of volumeClaimTemplates.
type claims struct {
	pools map[string]*pool  // by name
	exist map[string]*claim // by UID
}

type pool struct {
	Pool
	// most has the former values of max, each with the time until which it was in force.
	most []value
}

type claim struct {
	Claim
	// runners are the names of the runners that have had it, in the order of their creation.
	runners []string
	// uses are the pods that have mounted it, in the order of their creation, each with its runner.
	uses []use
}

type use struct {
	pod *pod
	by  *runner
}

func newClaims() claims { return claims{pools: map[string]*pool{}, exist: map[string]*claim{}} }

// limit returns max as a number.
func (p Pool) limit() int {
	if p.Max == nil {
		return math.MaxInt
	}
	return *p.Max
}

// named returns the claim with the name, nil if it doesn't exist.
func (c claims) named(name string) *claim {
	for _, known := range c.exist {
		if known.Name == name {
			return known
		}
	}
	return nil
}

func (r *replay) applyPool(c Change, next Pool) {
	if r.outdated(next.UID, c) {
		return
	}
	known := r.claims.pools[next.Name]
	if known == nil || known.UID != next.UID {
		known = &pool{Pool: next}
		r.claims.pools[next.Name] = known
	}
	known.most = append(known.most, value{known.limit(), c.Answered})
	known.Pool = next
}

func (r *replay) applyClaim(c Change, next Claim) {
	if r.outdated(next.UID, c) {
		return
	}
	if c.Gone {
		delete(r.claims.exist, next.UID)
		return
	}
	if next.Template == "" || r.claims.exist[next.UID] != nil {
		return
	}
	created := &claim{Claim: next}
	for _, runner := range r.runners { // they name it before it exists
		if slices.Contains(runner.Claims, next.Name) && !runner.over() {
			created.runners = append(created.runners, runner.Name)
		}
	}
	r.claims.exist[next.UID] = created
	if c.Verb == "create" && c.By == Manager {
		r.checkCount(c, created)
	}
}

// checkCount checks that no claim is created beyond max.
func (r *replay) checkCount(c Change, created *claim) {
	pool := r.claims.pools[created.Set]
	if pool == nil || r.history.blind(c.Received) {
		return
	}
	count := 0
	for _, other := range r.claims.exist {
		if other.Set == created.Set && other.Template == created.Template {
			count++
		}
	}
	most := largest(pool.limit(), pool.most, c.Received.Add(-r.history.late(c.Received)))
	if count > most {
		r.breach(c, "claim %s was created: %d of template %s, max is %d", created.Name, count, created.Template, most)
	}
}

// over reports whether the runner will not run again, whatever becomes of its pod.
func (r *runner) over() bool { return r.Failed || r.Outdated || r.Succeeded }

// checkLease checks that a new runner has its claims alone, and that they may be passed on to it.
func (r *replay) checkLease(c Change, created *runner) {
	for _, name := range created.Claims {
		known := r.claims.named(name)
		if !r.history.blind(c.Received) {
			for _, other := range r.runners {
				if other != created && !other.over() && slices.Contains(other.Claims, name) {
					r.breach(c, "runner %s was created with claim %s, which runner %s has", created.Name, name, other.Name)
				}
			}
			for _, other := range r.pods {
				if other.lives() && slices.Contains(other.Claims, name) {
					r.breach(c, "runner %s was created with claim %s, which pod %s mounts", created.Name, name, other.Name)
				}
			}
			r.checkKept(c, created, known)
		}
		if known != nil {
			known.runners = append(known.runners, created.Name)
		}
	}
}

// checkKept checks the jobs of earlier runners with the claim: after each, it may be passed on.
func (r *replay) checkKept(c Change, created *runner, leased *claim) {
	if leased == nil || r.claims.pools[leased.Set] == nil {
		return
	}
	pool := r.claims.pools[leased.Set]
	for _, job := range r.history.Jobs {
		if slices.Contains(leased.runners, job.Runner) && !job.Completed.IsZero() && !pool.keeps(job) {
			r.breach(c, "runner %s was created with claim %s, in which job %d ran: event %q, result %q",
				created.Name, leased.Name, job.ID, job.Event, job.Result)
		}
	}
}

// keeps reports whether claims are passed on after the job, as far as is known of it.
func (p Pool) keeps(job Job) bool {
	unwanted := func(wanted []string, is string) bool {
		return len(wanted) > 0 && is != "" && !slices.Contains(wanted, is)
	}
	return !unwanted(p.Events, job.Event) && !unwanted(p.Results, job.Result)
}

// asks reports whether it matters after which job a claim is passed on.
func (p Pool) asks() bool { return len(p.Events)+len(p.Results) > 0 }

// checkAsked checks that nothing can have been written to the claim that a new pod mounts, or that keepAfter was asked
// and said yes: of each earlier pod whose container has started, the listener has reported the job, and it was one to
// keep the claim after. Whatever was reported, the same runner gets no second pod.
func (r *replay) checkAsked(c Change, created *pod, mounted *claim) {
	its := r.runners[created.RunnerUID]
	pool := r.claims.pools[mounted.Set]
	if pool == nil || its == nil || !pool.asks() || felt(r.history.Blind, c.Received) {
		return // or a report may have been missed
	}
	for _, before := range mounted.uses {
		reported := before.by.Completed || (before.by.HasJob && len(pool.Results) == 0)
		switch {
		case !before.pod.Started || r.lost[before.by.UID] != nil: // its report may be what was lost
		case before.by.UID == its.UID:
			r.breach(c, "pod %s was created with claim %s, with which an earlier pod of its runner had started",
				created.Name, mounted.Name)
		case !reported:
			r.breach(c, "pod %s was created with claim %s, with which runner %s had started: nobody has reported its job",
				created.Name, mounted.Name, before.by.Name)
		case slices.ContainsFunc(r.history.Jobs, func(j Job) bool { return j.Runner == before.by.Name && !pool.keeps(j) }):
			r.breach(c, "pod %s was created with claim %s, in which runner %s ran a job that keepAfter doesn't name",
				created.Name, mounted.Name, before.by.Name)
		}
	}
}

// checkMounts checks that a new pod mounts no claim of another pod, and none that nobody has asked about.
func (r *replay) checkMounts(c Change, created *pod) {
	if c.Verb != "create" {
		return
	}
	for _, name := range created.Claims {
		if mounted, its := r.claims.named(name), r.runners[created.RunnerUID]; mounted != nil && its != nil {
			r.checkAsked(c, created, mounted)
			mounted.uses = append(mounted.uses, use{created, its})
		}
	}
	if r.history.blind(c.Received) {
		return
	}
	for _, name := range created.Claims {
		for _, other := range r.pods {
			if other != created && other.lives() && slices.Contains(other.Claims, name) {
				r.breach(c, "pod %s was created with claim %s, which pod %s mounts", created.Name, name, other.Name)
			}
		}
	}
}

// resyncClaims takes over complete lists of pools and claims.
func (r *replay) resyncClaims(c Change) {
	for _, pool := range c.List.Pools {
		r.applyPool(c, pool)
	}
	listed := map[string]bool{}
	for _, claim := range c.List.Claims {
		listed[claim.UID] = true
		r.applyClaim(c, claim)
	}
	for uid := range r.claims.exist {
		if c.List.Claims != nil && !listed[uid] {
			delete(r.claims.exist, uid)
		}
	}
}
