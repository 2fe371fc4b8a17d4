package placement_test

import (
	"slices"

	"github.com/harrier-ci/harrier/internal/capacity/placement"
)

// cluster has nodes for a set's pods, or has none.
type cluster struct {
	// slots returns the number of pods that the nodes hold in that second, others' pods left out. If there is an
	// autoscaler, it knows.
	slots      func(second int) int
	autoscaler *autoscaler
	quota      int // number of pods that the API server accepts; 0 is any number
	// oddAt are seconds; the first pod that is created after each never fits.
	oddAt  []int
	random bool // pods are placed in any order, not in that of their creation
}

// holds returns the number of pods that the set's cluster can hold, now or when its autoscaler has delivered.
func (s *set) holds() int {
	most := s.slots(s.sim.second)
	if s.autoscaler != nil {
		most = s.autoscaler.most(s.sim.second)
	}
	if s.quota > 0 {
		most = min(most, s.quota)
	}
	return min(most, s.max)
}

// place gives nodes to pods that wait, as long as there is room.
func (s *set) place() {
	free := s.slots(s.sim.second) - s.placed
	if s.autoscaler != nil {
		free = s.autoscaler.slots - s.placed
	}
	if free <= 0 || len(s.waiting) == 0 {
		return
	}
	if s.random {
		s.sim.random.Shuffle(len(s.waiting), func(i, k int) { s.waiting[i], s.waiting[k] = s.waiting[k], s.waiting[i] })
	}
	rest := s.waiting[:0]
	for _, r := range s.waiting {
		if r.odd || free <= 0 {
			rest = append(rest, r)
			continue
		}
		free--
		s.placed++
		s.see(r, placement.Pod{CreatedAt: moment(r.created), PlacedAt: moment(s.sim.second)})
		s.after(5+s.sim.random.IntN(55), func() { s.idle = append(s.idle, r) })
	}
	s.waiting = rest
	if s.random {
		slices.SortStableFunc(s.waiting, func(a, b *runner) int { return a.created - b.created })
	}
}

// autoscaler brings nodes of ten slots some minutes after pods have begun to wait, and takes those that were free for
// ten minutes.
type autoscaler struct {
	most            func(second int) int
	slots, ordered  int
	freeSince, idle int
}

const nodeSlots = 10

func (a *autoscaler) step(s *set) {
	now := s.sim.second
	coming := a.slots + a.ordered - s.placed
	for coming < len(s.waiting) && a.slots+a.ordered+nodeSlots <= a.most(now) {
		coming += nodeSlots
		a.ordered += nodeSlots
		s.after(60+s.sim.random.IntN(140), func() {
			a.ordered -= nodeSlots
			if a.slots+nodeSlots <= a.most(s.sim.second) {
				a.slots += nodeSlots
			}
		})
	}
	free := a.slots - s.placed
	if free < nodeSlots || len(s.waiting) > 0 {
		a.freeSince, a.idle = now, 0
		return
	}
	if a.idle = max(a.idle, 1); now-a.freeSince >= 600 {
		a.slots -= free / nodeSlots * nodeSlots
		a.freeSince = now
	}
}
