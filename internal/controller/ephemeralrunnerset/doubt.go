package ephemeralrunnerset

import (
	"time"

	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// idlePatience is how long a runner may be up without the job that figures say it should have.
	idlePatience = 30 * time.Second
	// askAgain is the pause between two questions about the same runner, and missingAgain the one after the first
	// answer that it is not registered: the service takes some seconds to show a new registration everywhere.
	askAgain     = time.Minute
	missingAgain = 15 * time.Second
	// workingAsk is how often a runner with a job is asked about: it finds completions that were lost.
	workingAsk = 10 * time.Minute
	// lingerPatience is how long a pod may live on after its job was reported completed.
	lingerPatience = time.Minute
)

// planDoubt asks GitHub where what is seen and what was reported do not go together.
func (m *memory) planDoubt(p *plan, runners []*runner, want demand) {
	// The figure of jobs is the listener's; the runners' own is what was reported for each.
	starved := want.assignedJobs > p.tally.working
	for _, r := range runners {
		past := m.past(r)
		if r.deleting || r.ended() || past.lost || !past.removed.IsZero() {
			continue // nothing more to find out
		}
		switch {
		case !m.askable(r):
			m.doubtUnaskable(p, r)
		case r.completed:
			m.ask(p, &p.remove, r, kube.LaterOf(past.completed, past.asked), lingerPatience)
		case m.slotOf(r) == slotWorking:
			m.ask(p, &p.lookUp, r, kube.LaterOf(past.up, past.asked), m.pauseAfter(past, workingAsk))
		case starved && r.up():
			m.doubtIdle(p, r, want)
		}
	}
}

// askable says that the set's GitHub can be asked about the runner.
func (m *memory) askable(r *runner) bool { return r.registration != 0 && !m.elsewhere(r) }

// doubtUnaskable drops a runner that lives on after its job was reported completed, or works elsewhere for long, from where no
// report comes any more. Its own finalization finds its registration where it is, and waits for a job that the runner has all the
// same.
func (m *memory) doubtUnaskable(p *plan, r *runner) {
	switch past := m.past(r); {
	case r.completed:
		m.pick(p, &p.drop, r, past.completed.Add(lingerPatience))
	case m.elsewhere(r) && m.slotOf(r) == slotWorking:
		m.pick(p, &p.drop, r, past.up.Add(workingAsk))
	}
}

// doubtIdle asks about a runner that is up without a job while jobs wait.
func (m *memory) doubtIdle(p *plan, r *runner, want demand) {
	past := m.past(r)
	switch {
	case !m.now.Before(past.up.Add(want.registrationTimeout)):
		// So long without a job: it never came to listen, whatever its registration says.
		m.ask(p, &p.remove, r, past.asked, askAgain)
	case past.asked.IsZero():
		m.ask(p, &p.lookUp, r, past.up, idlePatience)
	default:
		m.ask(p, &p.lookUp, r, past.asked, m.pauseAfter(past, askAgain))
	}
}

// pauseAfter is how long to wait after the last question: not long if the answer was that the runner is missing.
func (m *memory) pauseAfter(past *past, usual time.Duration) time.Duration {
	if !past.missing.IsZero() {
		return missingAgain
	}
	return usual
}

// ask adds the runner to the questions if the pause since the last one is over, and the one that GitHub has asked for.
func (m *memory) ask(p *plan, questions *[]*runner, r *runner, last time.Time, pause time.Duration) {
	m.pick(p, questions, r, kube.LaterOf(last.Add(pause), m.past(r).retry))
}

// pick adds the runner to one of the plan's lists if that is due, or sees to it that the moment is not missed.
func (m *memory) pick(p *plan, list *[]*runner, r *runner, due time.Time) {
	if m.now.Before(due) {
		p.wake(due)
		return
	}
	*list = append(*list, r)
}
