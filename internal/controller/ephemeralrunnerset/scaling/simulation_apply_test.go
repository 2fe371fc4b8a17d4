package scaling_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/creations"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/pool"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// apply makes the API server do what was planned, and asks GitHub. It returns the number of runners that were created.
func (sim *simulation) apply(p *plan) int {
	s := sim.state
	for _, r := range append(s.WithoutRecentlyDeleted(p.With(scaling.Delete), sim.now()),
		s.WithoutRecentlyDeleted(p.With(scaling.DeleteUnregistered), sim.now())...) {
		if is := sim.find(r); is != nil && sim.deletes(p, r) {
			is.Deleting = true
			sim.write(is)
		}
		if sim.deletes(p, r) {
			s.RememberDeleted(r.UID, sim.now())
		}
	}
	for _, r := range p.With(scaling.MarkFailed) {
		if is := sim.find(r); is != nil {
			is.Phase = failedOne.Phase
			sim.write(is)
		}
	}
	sim.ask(p.With(scaling.Deregister), true, removeAnswer)
	sim.ask(p.With(scaling.LookUp), false, lookUpAnswer)
	return sim.create(s.CreateLimit(p.Plan), p.Repeat)
}

// find returns the runner as it is, nil if it is gone.
func (sim *simulation) find(r *roster.Runner) *simulatedRunner {
	if i := slices.IndexFunc(sim.runners, func(is *simulatedRunner) bool { return is.UID == r.UID }); i >= 0 {
		return sim.runners[i]
	}
	return nil
}

// deletes reports whether the API server accepts the deletion or the runner is gone. A runner that was believed to be
// unregistered must not have changed.
func (sim *simulation) deletes(p *plan, r *roster.Runner) bool {
	is := sim.find(r)
	return is == nil || !slices.Contains(p.With(scaling.DeleteUnregistered), r) || is.ResourceVersion == r.ResourceVersion
}

// asked is a question about a runner that GitHub has not answered yet.
type asked struct {
	question *pool.Last[registrations.Answer]
	ask      func(*simulatedRunner) registrations.Answer
}

// asks reports whether a question about the runner is under way.
func (sim *simulation) asks(r *roster.Runner) bool {
	_, under := sim.inFlight[r.UID]
	return under
}

// ask asks about runners, perhaps to remove them, except those with a question under way.
func (sim *simulation) ask(
	about []*roster.Runner, removal bool, ask func(*simulatedRunner) registrations.Answer,
) {
	for _, r := range about {
		if !sim.asks(r) {
			sim.inFlight[r.UID] = asked{sim.state.Subject(r).Question, ask}
			sim.state.RememberAsked(r, removal)
		}
	}
}

// Outcomes of a creation.
const (
	creationRefused  = iota
	creationLost     // neither created nor answered
	creationNotKnown // created, but not answered
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

// create creates n runners, some of them repeated ones, and returns the number of those that exist then. Sometimes the
// context ends before all requests are sent.
func (sim *simulation) create(n, repeated int) int {
	if n == 0 {
		return 0
	}
	requested, before := sim.state.Creations, len(sim.runners)
	if !requested.Listed() && !sim.inherit() {
		return 0
	}
	tries := requested.Begin(n, sim.cache, sim.pickName)
	sim.state.CountStarts(n - repeated)
	for _, t := range tries {
		if _, before := sim.tried[t.Name]; !before {
			sim.tried[t.Name] = sim.now()
		}
	}
	asked := tries
	if !sim.calm && sim.chance(8) {
		asked = tries[:sim.random.IntN(n)]
	}
	var errs []error
	for _, t := range asked {
		if t.Asked, t.Err = true, sim.request(t.Name); !creations.Made(t.Err) {
			errs = append(errs, t.Err)
		}
	}
	if len(asked) < len(tries) {
		errs = append(errs, context.DeadlineExceeded)
	}
	requested.End(tries)
	requested.Settle(errors.Join(errs...), sim.now())
	return len(sim.runners) - before
}

// inherit asks the API server which runners exist, and reports whether the plan counts all of them.
func (sim *simulation) inherit() bool {
	requested := sim.state.Creations
	if sim.outcome() != creationMade {
		requested.Settle(errNoAnswer, sim.now())
		return false
	}
	existing := sets.New[string]()
	for _, r := range sim.runners {
		existing.Insert(r.Name)
	}
	return requested.Inherit(existing, sim.cache) == 0
}

// request asks the API server to create a runner: it may refuse, and its answer may be lost.
func (sim *simulation) request(name string) error {
	outcome := sim.outcome()
	if outcome == creationRefused {
		sim.decided[name] = true
		return errOverQuota
	}
	exists := sim.exists(name)
	if outcome >= creationNotKnown && !exists {
		sim.make(name)
	}
	switch {
	case outcome != creationMade:
		return errNoAnswer
	case exists:
		return apierrors.NewAlreadyExists(runnersGroup, name)
	default:
		return nil
	}
}

// pickName returns a name, sometimes one that a runner has already.
func (sim *simulation) pickName() string {
	if len(sim.runners) > 0 && sim.chance(4) {
		return sim.runners[sim.random.IntN(len(sim.runners))].Name
	}
	sim.made++
	return fmt.Sprintf("runner-%05d", sim.made)
}

func (sim *simulation) make(name string) {
	sim.decided[name] = true
	r := &simulatedRunner{Runner: roster.Runner{
		Name: name, UID: types.UID(name), CreatedAt: sim.now(), Template: fmt.Sprint(sim.template),
		ConfigURL: sim.configURL,
	}}
	sim.write(r)
	r.born = sim.made
	sim.runners = append(sim.runners, r)
	if start := (creation{name, sim.tried[name]}); !slices.Contains(sim.starts, start) {
		sim.starts = append(sim.starts, start)
	}
}

func (sim *simulation) exists(name string) bool {
	return slices.ContainsFunc(sim.runners, func(r *simulatedRunner) bool { return r.Name == name })
}

// absent counts the given names for which no runner exists.
func (sim *simulation) absent(names []string) int {
	absent := 0
	for _, name := range names {
		if !sim.exists(name) {
			absent++
		}
	}
	return absent
}

// unseen counts the runners that the watch does not show, as Reconcile does.
func (sim *simulation) unseen() creations.Unseen {
	requested := sim.state.Creations
	requested.Observe(sim.cache)
	if overdue := requested.Overdue(sim.now()); len(overdue) > 0 {
		existing, err := sim.list()
		requested.RememberListed(overdue, existing, err, sim.now())
	}
	return requested.Unseen(sim.now())
}

// list makes the API server list the runners. What keeps it from serving the watch may also keep it from answering
// this.
func (sim *simulation) list() (sets.Set[string], error) {
	if !sim.calm && (sim.away || sim.chance(3)) {
		return nil, errNoAnswer
	}
	names := sets.New[string]()
	for _, r := range sim.runners {
		names.Insert(r.Name)
	}
	return names, nil
}
