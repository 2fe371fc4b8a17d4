package scaling_test

import (
	"slices"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/scaling"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A simulation may rest for longestRest if no pass was requested.
const longestRest = 2 * time.Hour

// rest lets time pass in which nothing happens, at most until just before the pass that the controller has requested.
// If there were something to do then that the last pass had not begun, it would be done too late or, without an event,
// never.
func (sim *simulation) rest(t *testing.T, p *plan) {
	t.Helper()
	former := p
	if !sim.state.Creations.PausedUntil(sim.now()).IsZero() {
		former, p = p, sim.planned() // the error of the creations brings another pass immediately
	}
	limit := longestRest
	if due := kube.EarlierOf(p.RequeueAt, sim.state.Creations.ListDueAt()); !due.IsZero() {
		limit = min(limit, due.Sub(sim.now())-time.Millisecond)
	}
	if limit <= 0 {
		return
	}
	rested := time.Duration(sim.random.Int64N(int64(limit) + 1))
	sim.later(rested)
	if create, about := sim.newIn(sim.planned(), p, former); create > 0 || len(about) > 0 {
		t.Errorf("%s into a rest of %s, for which no pass was asked: create %d, do something about %v", rested, limit,
			create, names(about))
	}
}

// newIn returns the number of runners that a plan creates, and the runners that it deletes, asks about or marks as
// failed, unless an earlier plan did so already. While a question to GitHub is open, whose answer brings a pass, other
// runners may be picked for deletion.
func (sim *simulation) newIn(p *plan, former ...*plan) (create int, about []*roster.Runner) {
	waiting := sim.state.WithoutRecentlyDeleted(p.about(), sim.now())
	for _, r := range p.about() {
		what := p.decided(r)
		began := slices.ContainsFunc(former, func(before *plan) bool { return before.does(r, what) })
		switch what {
		case scaling.Deregister, scaling.LookUp:
			began = sim.asks(r)
		case scaling.Delete, scaling.DeleteUnregistered:
			began = began || len(sim.inFlight) > 0 || !slices.Contains(waiting, r)
		}
		if !began {
			about = append(about, r)
		}
	}
	return sim.state.CreateLimit(p.Plan), about
}

// does reports whether the plan does that with the runner, whose view may be a later one.
func (p *plan) does(r *roster.Runner, what scaling.Action) bool {
	return slices.ContainsFunc(p.With(what), func(other *roster.Runner) bool { return other.UID == r.UID })
}
