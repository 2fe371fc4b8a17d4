package ephemeralrunnerset

import (
	"cmp"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// roster holds a view of every runner that the watch has shown, by set. The watch's handler keeps it up to date, at a cost
// that does not depend on the number of runners in a set, so a pass neither lists nor copies its runners. Before the first
// pass it holds what the cache held when the controller started; creations ask for what a late cache lacks.
//
// Sets are identified by UID: a set that is recreated under its name starts without the earlier one's runners. The runners of a scale set
// that belong to no set are together under an owner of their own; see nobodys.
type roster struct {
	mu      sync.Mutex
	members map[types.NamespacedName]*member
	sets    map[types.UID]*setMembers
	// scaleSets counts, by the scale set that runners' labels name, the members of each owner.
	scaleSets map[types.NamespacedName]map[owner]int
}

// member is one runner of a set. Its view is replaced but never changed, so a pass may read it without the lock.
type member struct {
	set  owner
	view *runnerView
	gone bool
	// admitted is set once the runner may be registered; see admit.
	admitted bool
}

// owner is the set that a runner belongs to; the zero value means none.
type owner struct {
	uid  types.UID
	name string
}

// nobodys returns the owner of a scale set's runners that no set owns. No UID of an object is like its own, and it has no name, because no
// set is enqueued for them.
func nobodys(scaleSet types.NamespacedName) owner {
	return owner{uid: types.UID("nobody's of " + scaleSet.String())}
}

// setMembers are the runners of one set. The next call of roster.of sorts in those that came, and removes those that left; more than half
// of them never have.
type setMembers struct {
	members []*member
	ordered int // number of members in order, counted from the first
	gone    int // number of members that have left
}

func newRoster() *roster {
	return &roster{
		members: map[types.NamespacedName]*member{}, sets: map[types.UID]*setMembers{}, scaleSets: map[types.NamespacedName]map[owner]int{},
	}
}

// put stores a runner as it is now. It returns the set that the runner belonged to before, and whether anything has changed
// that could affect a decision.
func (r *roster) put(key types.NamespacedName, set owner, view runnerView) (former owner, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if set.uid == "" {
		set = nobodys(view.scaleSet)
	}
	known := r.members[key]
	if known != nil && known.set == set && known.view.uid == view.uid && known.view.scaleSet == view.scaleSet {
		view.arrival = known.view.arrival
		if known.view.same(view) {
			return set, false
		}
		known.view = new(view)
		return set, true
	}
	former = r.removeLocked(key)
	if r.sets[set.uid] == nil {
		r.sets[set.uid] = &setMembers{}
	}
	joined := &member{set: set, view: new(view)}
	r.members[key] = joined
	r.sets[set.uid].members = append(r.sets[set.uid].members, joined)
	if r.scaleSets[view.scaleSet] == nil {
		r.scaleSets[view.scaleSet] = map[owner]int{}
	}
	r.scaleSets[view.scaleSet][set]++
	return former, true
}

// remove removes a runner that is gone, and returns the set that it belonged to.
func (r *roster) remove(key types.NamespacedName) owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(key)
}

// setOf returns the set that a runner belongs to, none if the watch hasn't shown the runner.
func (r *roster) setOf(key types.NamespacedName) owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.members[key]; known != nil {
		return known.set
	}
	return owner{}
}

// removeLocked removes a runner from its set. The caller holds the lock.
func (r *roster) removeLocked(key types.NamespacedName) owner {
	left, known := r.members[key]
	if !known {
		return owner{}
	}
	delete(r.members, key)
	owners := r.scaleSets[left.view.scaleSet]
	if owners[left.set]--; owners[left.set] == 0 {
		delete(owners, left.set)
	}
	if len(owners) == 0 {
		delete(r.scaleSets, left.view.scaleSet)
	}
	left.gone = true
	set := r.sets[left.set.uid]
	switch set.gone++; {
	case set.gone == len(set.members):
		delete(r.sets, left.set.uid)
	case set.gone > len(set.members)/2:
		set.dropGone() // no pass may ever ask for the members of a set that is nobody's
	}
	return left.set
}

// others returns who owns runners with a scale set's labels, but for one set.
func (r *roster) others(scaleSet types.NamespacedName, except types.UID) (others []owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for set := range r.scaleSets[scaleSet] {
		if set.uid != except {
			others = append(others, set)
		}
	}
	return others
}

// admit reports whether a set that may have most runners has room for this one, which then has its place as long as it lives. The older
// ones go first; one that the watch is about to show is the youngest. Only a set with more runners than it may have is searched.
func (r *roster) admit(set types.UID, runner types.NamespacedName, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, others := r.members[runner], 0
	if known != nil && known.set.uid != set {
		known = nil
	}
	if members := r.sets[set]; members != nil {
		others = len(members.members) - members.gone
		if known != nil {
			others--
		}
		if others >= most && (known == nil || !known.admitted) {
			others = members.before(known)
		}
	}
	if known == nil {
		return others < most
	}
	known.admitted = known.admitted || others < most
	return known.admitted
}

// before counts the other runners that may run and have a place, or have one before this runner; nil is younger than all.
func (s *setMembers) before(runner *member) (count int) {
	for _, m := range s.members {
		first := runner == nil || m.admitted || m.view.registrationID != 0 || byAge(m, runner) < 0
		if m != runner && !m.gone && m.view.alive() && first {
			count++
		}
	}
	return count
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

// tidy removes the members that have left and sorts in the new ones. Most of these are younger than all others, so there is
// little to sort; if none came or left there is nothing to do.
func (s *setMembers) tidy() {
	s.dropGone()
	if added := s.members[s.ordered:]; len(added) > 0 {
		from, _ := slices.BinarySearchFunc(s.members[:s.ordered], slices.MinFunc(added, byAge), byAge)
		slices.SortFunc(s.members[from:], byAge)
		s.ordered = len(s.members)
	}
}

// dropGone removes the members that have left.
func (s *setMembers) dropGone() {
	if s.gone == 0 {
		return
	}
	s.ordered -= countGone(s.members[:s.ordered])
	s.members = slices.DeleteFunc(s.members, func(m *member) bool { return m.gone })
	s.gone = 0
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

// byAge orders runners by age, oldest first. Creation times have whole seconds; within one second the name decides.
func byAge(a, b *member) int {
	return cmp.Or(a.view.createdAt.Compare(b.view.createdAt), cmp.Compare(a.view.name, b.view.name))
}

// ownerOf returns the set that a runner belongs to.
func ownerOf(runner client.Object) owner {
	set := metav1.GetControllerOfNoCopy(runner)
	if set == nil || set.Kind != "EphemeralRunnerSet" {
		return owner{}
	}
	return owner{uid: set.UID, name: set.Name}
}
