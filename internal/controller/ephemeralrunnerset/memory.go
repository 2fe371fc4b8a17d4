package ephemeralrunnerset

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// memory is what one set's plan needs to know of the past and no object says: when things were first seen, and what
// GitHub answered. Only the set's own reconcile touches it, one pass at a time.
type memory struct {
	// now is the time of the pass, and passes its number.
	now    time.Time
	passes int

	// place is where the set's runners are registered now; those made before it moved are registered elsewhere.
	place place

	// patchID is the newest one seen and patchSeen when that was.
	patchID   int
	patchSeen time.Time

	runners map[types.UID]*past

	// surplus[i] is since when there have been more than i runners too many.
	surplus []time.Time
	// completions are the times at which a completion was first seen, of the last completionWindow.
	completions []time.Time

	trouble trouble

	// refusals counts the creations in a row that failed, refusal is what the last one failed with, and lacking says that
	// runners are still to be made.
	refusals int
	refusal  error
	lacking  bool
	// createAfter is when the next creation may be tried after one that failed.
	createAfter time.Time
	// closed: the namespace is being deleted, so nothing can be made in it any more.
	closed bool
}

// past is what is remembered of one runner.
type past struct {
	up        time.Time // first seen running, in its present pod
	ended     time.Time // first seen ended
	completed time.Time // first seen with its job reported completed

	// What follows is of this registration; one that is made anew starts with nothing asked.
	registration int
	answers

	counted bool // its failure is part of trouble
	worked  bool // so is its job, which may be reported after it was taken for a failure
	seenIn  int  // number of the last pass that saw it
}

// answers are what came of asking GitHub about a registration.
type answers struct {
	busy    bool      // GitHub refused to remove it because it has a job
	removed time.Time // GitHub agreed to remove it, or did not know it any more

	asked   time.Time // last question to GitHub about it
	retry   time.Time // when to ask again after a question that got no answer
	missing time.Time // first of the answers in a row that it is not registered
	lost    bool      // not registered in two answers far enough apart
}

// registration is a runner's on GitHub: one that lost its pod before it had a job gets another.
type registration struct {
	runner types.UID
	id     int
}

func newMemory() *memory { return &memory{runners: map[types.UID]*past{}} }

// past returns what is remembered of the runner; of one that was not noted, that nothing is.
func (m *memory) past(r *runner) *past {
	if p, known := m.runners[r.uid]; known {
		return p
	}
	return &past{}
}

// note adds what this pass sees for the first time, forgets the runners that are gone, and returns the registrations that
// nothing is to be known of any more.
func (m *memory) note(runners []*runner, patchID int, specHash string, now time.Time) (over []registration) {
	if m.patchSeen.IsZero() || patchID != m.patchID {
		m.patchSeen = now
	}
	m.now, m.patchID = now, patchID
	m.trouble.forTemplate(specHash)
	m.passes++
	for _, r := range runners {
		p, known := m.runners[r.uid]
		if !known {
			p = &past{registration: r.registration}
			m.runners[r.uid] = p
		}
		p.seenIn = m.passes
		if p.registration != r.registration {
			over = append(over, registration{r.uid, p.registration})
			p.registration, p.answers = r.registration, answers{}
		}
		m.noteRunner(r, p)
	}
	for uid, p := range m.runners {
		if len(m.runners) == len(runners) {
			break // nobody is gone, or the last who is has been found
		}
		if p.seenIn != m.passes {
			over = append(over, registration{uid, p.registration})
			delete(m.runners, uid)
		}
	}
	m.completions = slices.DeleteFunc(m.completions, func(t time.Time) bool { return now.Sub(t) >= completionWindow })
	return over
}

func (m *memory) noteRunner(r *runner, p *past) {
	switch {
	case r.up():
		kube.SetIfZero(&p.up, m.now)
	case r.ended():
		kube.SetIfZero(&p.ended, m.now)
	default:
		p.up = time.Time{}
	}
	if r.completed && kube.SetIfZero(&p.completed, m.now) {
		m.completions = append(m.completions, m.now)
	}
	m.noteTrouble(r, p)
}

// noteTrouble counts, once a runner, that it failed before it got a job, that it is outdated, or that it got one.
func (m *memory) noteTrouble(r *runner, p *past) {
	switch {
	case p.worked || m.oldTemplate(r):
	case r.hasJob:
		p.worked = true
		m.trouble.tookJob(r)
	case p.counted:
	case r.failedIdle():
		p.counted = true
		m.trouble.failed(r, m.now)
	case r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		p.counted = true
		m.trouble.outdated(r, m.now)
	}
}

// oldTemplate says that the runner was made from another template than the present one. One that ARC made does not tell
// and counts as of the present, unless it is registered elsewhere: taking over kills no runner.
func (m *memory) oldTemplate(r *runner) bool {
	return m.elsewhere(r) || r.template != "" && r.template != m.trouble.template
}

// elsewhere says that the set's GitHub does not know the runner, because the set has moved since it was made.
func (m *memory) elsewhere(r *runner) bool { return r.place != m.place }
