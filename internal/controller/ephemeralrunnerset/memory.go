package ephemeralrunnerset

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// memory is what one set's plan needs to know of the past and no object says: when things were first seen, and what
// GitHub answered. Only the set's own reconcile touches it, one pass at a time.
type memory struct {
	// now is the time of the pass.
	now time.Time

	// patchID is the newest one seen and patchSeen when that was.
	patchID   int
	patchSeen time.Time

	runners map[types.UID]*past

	// surplus[i] is since when there have been more than i runners too many.
	surplus []time.Time
	// completions are the times at which a completion was first seen, of the last completionWindow.
	completions []time.Time

	trouble trouble
}

// past is what is remembered of one runner.
type past struct {
	up        time.Time // first seen running
	ended     time.Time // first seen ended
	completed time.Time // first seen with its job reported completed

	busy    bool      // GitHub refused to remove it because it has a job
	removed time.Time // GitHub agreed to remove it, or did not know it any more

	asked   time.Time // last question to GitHub about it
	retry   time.Time // when to ask again after a question that got no answer
	missing time.Time // first of the answers in a row that it is not registered
	lost    bool      // not registered in two answers far enough apart

	counted bool // its failure, or its job, is part of trouble
}

func newMemory() *memory { return &memory{runners: map[types.UID]*past{}} }

// past returns what is remembered of the runner; of one that was not noted, that nothing is.
func (m *memory) past(r *runner) *past {
	if p, known := m.runners[r.uid]; known {
		return p
	}
	return &past{}
}

// note adds what this pass sees for the first time, and forgets and returns the runners that are gone.
func (m *memory) note(runners []*runner, patchID int, specHash string, now time.Time) (gone []types.UID) {
	if m.patchSeen.IsZero() || patchID != m.patchID {
		m.patchSeen = now
	}
	m.now, m.patchID = now, patchID
	m.trouble.forTemplate(specHash)
	seen := make(map[types.UID]*past, len(runners))
	for _, r := range runners {
		p := m.past(r)
		seen[r.uid] = p
		m.noteRunner(r, p)
	}
	for uid := range m.runners {
		if seen[uid] == nil {
			gone = append(gone, uid)
		}
	}
	m.runners = seen
	m.completions = slices.DeleteFunc(m.completions, func(t time.Time) bool { return now.Sub(t) >= completionWindow })
	return gone
}

func (m *memory) noteRunner(r *runner, p *past) {
	if r.up() {
		first(&p.up, m.now)
	}
	if r.ended() {
		first(&p.ended, m.now)
	}
	if r.completed && first(&p.completed, m.now) {
		m.completions = append(m.completions, m.now)
	}
	m.noteTrouble(r, p)
}

// noteTrouble counts, once a runner, that it failed before it got a job, that it is outdated, or that it got one.
func (m *memory) noteTrouble(r *runner, p *past) {
	if p.counted || r.oldTemplate {
		return
	}
	switch {
	case r.hasJob:
		p.counted = true
		m.trouble.tookJob(r)
	case r.failedIdle():
		p.counted = true
		m.trouble.failed(r, m.now)
	case r.phase == v1alpha1.EphemeralRunnerPhaseOutdated:
		p.counted = true
		m.trouble.outdated(r, m.now)
	}
}

// first sets a time that is not set yet, and says whether it did.
func first(t *time.Time, now time.Time) bool {
	if !t.IsZero() {
		return false
	}
	*t = now
	return true
}
