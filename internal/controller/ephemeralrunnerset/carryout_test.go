package ephemeralrunnerset

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// carryOut has the API server do what was planned, and GitHub asked. It returns how many runners were
// made that had not been tried before.
func (w *world) carryOut(p *plan) int {
	m := w.memory
	for _, r := range append(m.notDropped(p.drop, w.now()), m.notDropped(p.dropUnseen, w.now())...) {
		if is := w.find(r); is != nil && w.deletes(p, r) {
			is.deleting = true
			w.write(is)
		}
		if w.deletes(p, r) {
			m.dropped[r.uid] = w.now()
		}
	}
	for _, r := range p.exitedIdle {
		if is := w.find(r); is != nil {
			is.phase = failedOne.phase
			w.write(is)
		}
	}
	w.ask(p.remove, askedToRemove)
	w.ask(p.lookUp, askedWhether)
	return w.create(w.controller.allowed(&pass{memory: m, plan: p}))
}

// find returns the runner as it is, nil where it is gone.
func (w *world) find(r *runner) *one {
	if i := slices.IndexFunc(w.runners, func(is *one) bool { return is.uid == r.uid }); i >= 0 {
		return w.runners[i]
	}
	return nil
}

// deletes says that the API server accepts the deletion, or that the runner is gone: one that was thought to be
// unregistered must not have changed.
func (w *world) deletes(p *plan, r *runner) bool {
	is := w.find(r)
	return is == nil || !slices.Contains(p.dropUnseen, r) || is.version == r.version
}

func (w *world) ask(about []*runner, ask func(*one) answer) {
	for _, r := range about {
		if _, under := w.inFlight[r.uid]; !under {
			w.inFlight[r.uid] = ask
			w.memory.past(r).asked = w.now()
		}
	}
}

// create makes runners, of which some are refused, and of some others the answer is lost: then the next try has to wait.
func (w *world) create(n int) int {
	if n == 0 {
		return 0
	}
	m, fresh := w.memory, 0
	names, again := m.unanswered, slices.Clone(m.unanswered)
	m.unanswered = nil
	for len(names) < n {
		w.made++
		names = append(names, fmt.Sprintf("runner-%05d", w.made))
	}
	for _, name := range names {
		w.controller.expectations.Expect(setKey, name)
		outcome := w.random.IntN(30)
		if w.calm {
			outcome = 29
		}
		exists := slices.ContainsFunc(w.runners, func(r *one) bool { return r.name == name })
		switch {
		case outcome == 0 && slices.Contains(again, name):
		case outcome == 0:
			w.controller.expectations.Met(setKey, name) // refused
		case outcome > 1 && !exists:
			r := &one{runner: runner{name: name, uid: types.UID(name), created: w.now(), template: fmt.Sprint(w.template), place: w.place}}
			w.write(r)
			w.runners = append(w.runners, r)
			if !slices.Contains(again, name) {
				fresh++
			}
		}
		if outcome == 1 || outcome == 2 {
			m.unanswered = append(m.unanswered, name)
		}
		if outcome <= 2 {
			m.createAfter = w.now().Add(firstCreatePause)
		}
	}
	return fresh
}
