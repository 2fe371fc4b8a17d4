package ephemeralrunnerset

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// roster holds a view of every runner that the watch has shown, by set. The watch's handler keeps it up to date, at a cost
// that does not depend on how many runners a set has, so that a pass neither lists its runners nor copies them. It is
// complete before the first pass, because a controller starts when its handlers have received all objects that there are.
//
// Sets are identified by UID: one that was created again under its name begins with none of the former one's runners.
type roster struct {
	mu      sync.Mutex
	members map[types.NamespacedName]*member
	sets    map[types.UID]*setMembers
}

// member is one runner of a set. Its view is replaced and never changed, so a pass may read it without the lock.
type member struct {
	set  owner
	view *runnerView
	gone bool
}

// owner is the set that a runner belongs to; the zero value is that of a runner without one.
type owner struct {
	uid  types.UID
	name string
}

// setMembers are the runners of one set. Those that came or went since the last call of roster.of are put in order, or
// removed, by the next one.
type setMembers struct {
	members []*member
	ordered int // how many of members are in order, from the first on
	gone    int // how many of members have left
}

func newRoster() *roster {
	return &roster{members: map[types.NamespacedName]*member{}, sets: map[types.UID]*setMembers{}}
}

// put takes in a runner as it is now. It returns the set that the runner belonged to, and whether anything has changed that a
// decision could follow from.
func (r *roster) put(key types.NamespacedName, set owner, view runnerView) (former owner, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.members[key]
	if known != nil && known.set == set && known.view.uid == view.uid {
		if known.view.same(view) {
			return set, false
		}
		known.view = new(view)
		return set, true
	}
	former = r.removeLocked(key)
	if set.uid == "" {
		return former, former.uid != ""
	}
	if r.sets[set.uid] == nil {
		r.sets[set.uid] = &setMembers{}
	}
	joined := &member{set: set, view: new(view)}
	r.members[key] = joined
	r.sets[set.uid].members = append(r.sets[set.uid].members, joined)
	return former, true
}

// remove takes out a runner that is gone, and returns the set that it belonged to.
func (r *roster) remove(key types.NamespacedName) owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(key)
}

// removeLocked takes a runner out of the set that it is in. The caller holds the lock.
func (r *roster) removeLocked(key types.NamespacedName) owner {
	left, known := r.members[key]
	if !known {
		return owner{}
	}
	delete(r.members, key)
	left.gone = true
	set := r.sets[left.set.uid]
	set.gone++
	if set.gone == len(set.members) {
		delete(r.sets, left.set.uid)
	}
	return left.set
}

// of returns the set's runners, oldest first. The caller may change the slice, but not what it points to.
func (r *roster) of(set types.UID) []*runnerView {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.sets[set]
	if known == nil {
		return nil
	}
	known.tidy()
	views := make([]*runnerView, len(known.members))
	for i, m := range known.members {
		views[i] = m.view
	}
	return views
}

// tidy removes the members that have left and puts the new ones in their places. Most of these are younger than all others,
// so there is little to sort; where none came or went there is nothing to do.
func (s *setMembers) tidy() {
	if s.gone > 0 {
		s.ordered -= countGone(s.members[:s.ordered])
		s.members = slices.DeleteFunc(s.members, func(m *member) bool { return m.gone })
		s.gone = 0
	}
	if added := s.members[s.ordered:]; len(added) > 0 {
		from, _ := slices.BinarySearchFunc(s.members[:s.ordered], slices.MinFunc(added, byAge), byAge)
		slices.SortFunc(s.members[from:], byAge)
		s.ordered = len(s.members)
	}
}

func countGone(members []*member) int {
	gone := 0
	for _, m := range members {
		if m.gone {
			gone++
		}
	}
	return gone
}

// byAge orders runners by age, oldest first. Creation times are in whole seconds: those of one second are ordered by name.
func byAge(a, b *member) int {
	return cmp.Or(a.view.createdAt.Compare(b.view.createdAt), cmp.Compare(a.view.name, b.view.name))
}
