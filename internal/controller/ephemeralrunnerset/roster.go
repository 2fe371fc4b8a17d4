package ephemeralrunnerset

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// roster holds a view of every runner that the watch has shown, by set. The watch's handler keeps it up to date, at a cost
// that does not depend on how many runners a set has, so that a pass neither lists its runners nor copies them. It is
// complete before the first pass, because a controller starts when its handlers have been told of all there is.
//
// Sets are told apart by UID: one that was made anew under its name begins with none of the former one's runners.
type roster struct {
	mu      sync.Mutex
	members map[types.NamespacedName]*member
	sets    map[types.UID]*crew
}

// member is one runner of a set. Its view is replaced and never changed, so a pass may read it without the lock.
type member struct {
	set  owner
	view *runner
	gone bool
}

// owner is the set that a runner belongs to; the zero value is that of a runner without one.
type owner struct {
	uid  types.UID
	name string
}

// crew is the runners of one set. Those that came or went since the last look are put in order by the next one.
type crew struct {
	members []*member
	ordered int // so many of members are in order, from the first on
	gone    int // so many of members have left
}

func newRoster() *roster {
	return &roster{members: map[types.NamespacedName]*member{}, sets: map[types.UID]*crew{}}
}

// put takes in a runner as it is now and returns whose it was, and whether anything is new that a decision could follow
// from.
func (r *roster) put(key types.NamespacedName, set owner, view runner) (former owner, news bool) {
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
	former = r.leave(key)
	if set.uid == "" {
		return former, former.uid != ""
	}
	if r.sets[set.uid] == nil {
		r.sets[set.uid] = &crew{}
	}
	joined := &member{set: set, view: new(view)}
	r.members[key] = joined
	r.sets[set.uid].members = append(r.sets[set.uid].members, joined)
	return former, true
}

// remove takes a runner out that is gone, and returns whose it was.
func (r *roster) remove(key types.NamespacedName) owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leave(key)
}

// leave takes a runner out of the set that it is in. The caller holds the lock.
func (r *roster) leave(key types.NamespacedName) owner {
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

// of returns the set's runners, oldest first. The slice is the caller's, what it points to is not to be changed.
func (r *roster) of(set types.UID) []*runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.sets[set]
	if known == nil {
		return nil
	}
	known.tidy()
	views := make([]*runner, len(known.members))
	for i, m := range known.members {
		views[i] = m.view
	}
	return views
}

// tidy drops those that have left and puts the new ones in their places. Most are younger than all others, so there is
// little to sort; where nobody came or went there is nothing to do.
func (c *crew) tidy() {
	if c.gone > 0 {
		c.ordered -= countGone(c.members[:c.ordered])
		c.members = slices.DeleteFunc(c.members, func(m *member) bool { return m.gone })
		c.gone = 0
	}
	if added := c.members[c.ordered:]; len(added) > 0 {
		from, _ := slices.BinarySearchFunc(c.members[:c.ordered], slices.MinFunc(added, byAge), byAge)
		slices.SortFunc(c.members[from:], byAge)
		c.ordered = len(c.members)
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

// byAge orders runners, oldest first, and those of one second, which is how exactly their age is known, by name.
func byAge(a, b *member) int {
	return cmp.Or(a.view.created.Compare(b.view.created), cmp.Compare(a.view.name, b.view.name))
}
