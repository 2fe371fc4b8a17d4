// Package roster holds a view of every runner that the watch has shown, by set: what decisions need to know of each,
// without its pod template. The watch's handler keeps it up to date; a pass takes the views of its set.
package roster

import (
	"cmp"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/internal/feedback"
)

// Roster holds a view of every runner that the watch has shown, by set. The watch's handler keeps it up to date, at a
// cost that does not depend on the number of runners in a set, so a pass neither lists nor copies its runners. Before
// the first pass it holds what the cache held when the controller started; creations ask for what a late cache lacks.
//
// Sets are identified by UID: a set that is recreated under its name starts without the earlier one's runners. The
// runners of a scale set that belong to no set are together under an owner of their own; see nobodys.
type Roster struct {
	mu      sync.Mutex
	members map[types.NamespacedName]*member
	sets    map[types.UID]*setMembers
	// scaleSets counts, by the scale set that runners' labels name, the members of each owner.
	scaleSets map[types.NamespacedName]map[Owner]int
	// lost has the runners whose jobs were lost, by their workflow runs.
	lost map[lostRun]map[*member]struct{}
}

// lostRun is a workflow run, as runners of one namespace name it: what those of others say is none of its business.
type lostRun struct {
	namespace string
	run       feedback.Run
}

// member is one runner of a set. Its view is replaced but never changed, so a pass may read it without the lock.
type member struct {
	set  Owner
	view *Runner
	gone bool
	// admitted is set when the runner may be registered; see admit.
	admitted bool
}

// Owner is the set that a runner belongs to; the zero value means none.
type Owner struct {
	UID  types.UID
	Name string
}

// nobodys returns the owner of a scale set's runners that no set owns. Its UID is like no object's, and it has no name,
// because no set is enqueued for these runners.
func nobodys(scaleSet types.NamespacedName) Owner {
	return Owner{UID: types.UID("nobody's of " + scaleSet.String())}
}

// setMembers are the runners of one set. The next call of Roster.Of sorts in those that came, and removes those that
// left, which are never more than half of all.
type setMembers struct {
	members []*member
	ordered int // number of members in order, counted from the first
	gone    int // number of members that have left
}

// New returns a roster without runners.
func New() *Roster {
	return &Roster{
		members: map[types.NamespacedName]*member{}, sets: map[types.UID]*setMembers{},
		scaleSets: map[types.NamespacedName]map[Owner]int{},
		lost:      map[lostRun]map[*member]struct{}{},
	}
}

// Put stores a runner as it is now. It returns the set that the runner belonged to before, and whether anything has
// changed that could affect a decision.
func (r *Roster) Put(key types.NamespacedName, set Owner, view Runner) (former Owner, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if set.UID == "" {
		set = nobodys(view.ScaleSet)
	}
	known := r.members[key]
	if known != nil && known.set == set && known.view.UID == view.UID && known.view.ScaleSet == view.ScaleSet {
		view.Arrival = known.view.Arrival
		if known.view.same(view) {
			return set, false
		}
		r.unlistLocked(key, known)
		known.view = new(view)
		r.listLocked(key, known)
		return set, true
	}
	former = r.removeLocked(key)
	if r.sets[set.UID] == nil {
		r.sets[set.UID] = &setMembers{}
	}
	joined := &member{set: set, view: new(view)}
	r.members[key] = joined
	r.listLocked(key, joined)
	r.sets[set.UID].members = append(r.sets[set.UID].members, joined)
	if r.scaleSets[view.ScaleSet] == nil {
		r.scaleSets[view.ScaleSet] = map[Owner]int{}
	}
	r.scaleSets[view.ScaleSet][set]++
	return former, true
}

// Remove removes a runner that is gone, and returns the set that it belonged to.
func (r *Roster) Remove(key types.NamespacedName) Owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(key)
}

// SetOf returns the set that a runner belongs to, none if the watch hasn't shown the runner.
func (r *Roster) SetOf(key types.NamespacedName) Owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.members[key]; known != nil {
		return known.set
	}
	return Owner{}
}

// removeLocked removes a runner from its set. The caller holds the lock.
func (r *Roster) removeLocked(key types.NamespacedName) Owner {
	left, known := r.members[key]
	if !known {
		return Owner{}
	}
	delete(r.members, key)
	r.unlistLocked(key, left)
	owners := r.scaleSets[left.view.ScaleSet]
	if owners[left.set]--; owners[left.set] == 0 {
		delete(owners, left.set)
	}
	if len(owners) == 0 {
		delete(r.scaleSets, left.view.ScaleSet)
	}
	left.gone = true
	set := r.sets[left.set.UID]
	switch set.gone++; {
	case set.gone == len(set.members):
		delete(r.sets, left.set.UID)
	case set.gone > len(set.members)/2:
		set.dropGone() // no pass may ever ask for the members of a set that is nobody's
	}
	return left.set
}

// listLocked remembers a runner whose job was lost, and unlistLocked what was remembered. The caller holds the lock.
func (r *Roster) listLocked(key types.NamespacedName, m *member) {
	if !m.view.Lost() {
		return
	}
	at := lostRun{key.Namespace, m.view.LostJob.Run}
	if r.lost[at] == nil {
		r.lost[at] = map[*member]struct{}{}
	}
	r.lost[at][m] = struct{}{}
}

func (r *Roster) unlistLocked(key types.NamespacedName, m *member) {
	if m.view.Lost() {
		at := lostRun{key.Namespace, m.view.LostJob.Run}
		if delete(r.lost[at], m); len(r.lost[at]) == 0 {
			delete(r.lost, at)
		}
	}
}

// LostBeside returns the jobs of a workflow run that were lost on runners of a namespace, but for those of one set.
func (r *Roster) LostBeside(namespace string, run feedback.Run, except types.UID) (beside []*feedback.Lost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for m := range r.lost[lostRun{namespace, run}] {
		if m.set.UID != except {
			beside = append(beside, m.view.LostJob)
		}
	}
	return beside
}

// Others returns the owners of runners with a scale set's labels, but for one set.
func (r *Roster) Others(scaleSet types.NamespacedName, except types.UID) (others []Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for set := range r.scaleSets[scaleSet] {
		if set.UID != except {
			others = append(others, set)
		}
	}
	return others
}

// Admit reports whether a set that may have most runners has room for this runner, which then has its place as long as
// it lives. Older runners come first; a runner that the watch is about to show is the youngest. Only a set with more
// runners than it may have is searched.
func (r *Roster) Admit(set types.UID, runner types.NamespacedName, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, others := r.members[runner], 0
	if known != nil && known.set.UID != set {
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

// before counts the other runners that may run and that have a place, or get one before this runner; nil is younger
// than all.
func (s *setMembers) before(runner *member) (count int) {
	for _, m := range s.members {
		first := runner == nil || m.admitted || m.view.RegistrationID != 0 || byAge(m, runner) < 0
		if m != runner && !m.gone && m.view.Alive() && first {
			count++
		}
	}
	return count
}

// Of returns the set's runners, oldest first. The caller may change the slice, but not what it points to.
func (r *Roster) Of(set types.UID) []*Runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.sets[set]
	if known == nil {
		return nil
	}
	known.tidy()
	views := make([]*Runner, len(known.members))
	for i, m := range known.members {
		views[i] = m.view
	}
	return views
}

// tidy removes the members that have left and sorts in the new ones. Most of these are younger than all others, so
// there is little to sort; if none came or left there is nothing to do.
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
	for _, m := range s.members[:s.ordered] {
		if m.gone {
			s.ordered--
		}
	}
	s.members = slices.DeleteFunc(s.members, func(m *member) bool { return m.gone })
	s.gone = 0
}

// byAge orders runners by age, oldest first. Creation times have whole seconds; within one second the name decides.
func byAge(a, b *member) int {
	return cmp.Or(a.view.CreatedAt.Compare(b.view.CreatedAt), cmp.Compare(a.view.Name, b.view.Name))
}

// OwnerOf returns the set that a runner belongs to.
func OwnerOf(runner client.Object) Owner {
	set := metav1.GetControllerOfNoCopy(runner)
	if set == nil || set.Kind != "EphemeralRunnerSet" {
		return Owner{}
	}
	return Owner{UID: set.UID, Name: set.Name}
}

// same reports whether nothing has changed that a decision needs. The resourceVersion matters until the runner is
// registered: until then it may be deleted on condition that nobody has written to it.
func (r *Runner) same(now Runner) bool {
	before := *r
	before.CreatedAt, now.CreatedAt = time.Time{}, time.Time{} // follows from the UID
	if now.RegistrationID != 0 {
		before.ResourceVersion, now.ResourceVersion = "", ""
	}
	return before == now
}
