package ephemeralrunnerset

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// apply has the API server do what was planned, and GitHub asked. It returns how many runners were created.
func (sim *simulation) apply(p *plan) int {
	s := sim.state
	for _, r := range append(s.withoutRecentlyDeleted(p.delete, sim.now()), s.withoutRecentlyDeleted(p.deleteUnregistered, sim.now())...) {
		if is := sim.find(r); is != nil && sim.deletes(p, r) {
			is.deleting = true
			sim.write(is)
		}
		if sim.deletes(p, r) {
			s.recentlyDeleted[r.uid] = sim.now()
		}
	}
	for _, r := range p.exitedIdle {
		if is := sim.find(r); is != nil {
			is.phase = failedOne.phase
			sim.write(is)
		}
	}
	sim.ask(p.deregister, removeAnswer)
	sim.ask(p.lookUp, lookUpAnswer)
	return sim.create(s.createLimit(p))
}

// find returns the runner as it is, nil where it is gone.
func (sim *simulation) find(r *runnerView) *simulatedRunner {
	if i := slices.IndexFunc(sim.runners, func(is *simulatedRunner) bool { return is.uid == r.uid }); i >= 0 {
		return sim.runners[i]
	}
	return nil
}

// deletes reports whether the API server accepts the deletion, or the runner is gone: one that was thought to be unregistered
// must not have changed.
func (sim *simulation) deletes(p *plan, r *runnerView) bool {
	is := sim.find(r)
	return is == nil || !slices.Contains(p.deleteUnregistered, r) || is.resourceVersion == r.resourceVersion
}

func (sim *simulation) ask(about []*runnerView, ask func(*simulatedRunner) answer) {
	for _, r := range about {
		if _, under := sim.inFlight[r.uid]; !under {
			sim.inFlight[r.uid] = ask
			sim.state.historyOf(r).askedAt = sim.now()
		}
	}
}

// Outcomes of a creation.
const (
	creationRefused  = iota
	creationLost     // neither made nor answered
	creationNotKnown // made, but not answered
	creationMade
)

func (sim *simulation) outcome() int {
	switch {
	case sim.calm:
		return creationMade
	case sim.away:
		return sim.random.IntN(creationMade)
	default:
		return min(sim.random.IntN(30), creationMade)
	}
}

// create creates runners. Some are refused, and of some others the answer is lost: then the next try has to wait.
func (sim *simulation) create(n int) int {
	if n == 0 {
		return 0
	}
	s, made := sim.state, 0
	names, retried := s.unanswered, slices.Clone(s.unanswered)
	s.unanswered = nil
	for len(names) < n {
		sim.made++
		names = append(names, fmt.Sprintf("runner-%05d", sim.made))
	}
	for _, name := range names {
		sim.controller.expectations.Expect(setKey, name)
		outcome := sim.outcome()
		if outcome == creationRefused && !slices.Contains(retried, name) {
			sim.controller.expectations.Met(setKey, name)
		}
		if outcome >= creationNotKnown && !sim.exists(name) {
			sim.make(name)
			made++
		}
		if outcome == creationLost || outcome == creationNotKnown {
			s.unanswered = append(s.unanswered, name)
		}
		if outcome != creationMade {
			s.createAt = sim.now().Add(firstCreatePause)
		}
	}
	return made
}

func (sim *simulation) make(name string) {
	r := &simulatedRunner{runnerView: runnerView{
		name: name, uid: types.UID(name), createdAt: sim.now(), template: fmt.Sprint(sim.template), configURL: sim.configURL,
	}}
	sim.write(r)
	sim.runners = append(sim.runners, r)
}

func (sim *simulation) exists(name string) bool {
	return slices.ContainsFunc(sim.runners, func(r *simulatedRunner) bool { return r.name == name })
}

// absent counts the runners that don't exist, of those with the given names.
func (sim *simulation) absent(names []string) int {
	absent := 0
	for _, name := range names {
		if !sim.exists(name) {
			absent++
		}
	}
	return absent
}
