package leases

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/harrier-ci/harrier/internal/volumeclaims"
	"github.com/harrier-ci/harrier/internal/volumeclaims/places"
)

// Of returns the memory of a scale set's claims, for the exclusive use of one pass until its End. It returns
// nil while another pass has it: a scale set may have several runner sets.
func (l *Leases) Of(scaleSet types.NamespacedName) *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.sets[scaleSet]
	if known == nil {
		known = &Set{Memory: volumeclaims.NewMemory(scaleSet.Name), Recorded: sets.New[string](),
			Places:  map[types.UID]places.Place{},
			awaited: sets.New[string]()}
		l.sets[scaleSet] = known
	}
	if known.taken {
		return nil
	}
	known.taken = true
	known.End = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		known.taken = false
	}
	return known
}

// Forget drops what is remembered of a scale set that is gone.
func (l *Leases) Forget(scaleSet types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sets, scaleSet)
}

// Set is the memory of one scale set's claims between passes.
type Set struct {
	*volumeclaims.Memory
	// End ends the use by a pass.
	End   func()
	taken bool

	// At ListAt the API server may be asked again which claims there are, and at EventsAt what nodes say about mounting
	// them.
	ListAt, EventsAt time.Time
	// Places has, by the UIDs of claims, where their volumes can be used, as far as these have been read; a zero place is
	// one that isn't known. At VolumesAt they may be read again, and at WaitEventsAt what is said of pods without a node.
	Places                  map[types.UID]places.Place
	VolumesAt, WaitEventsAt time.Time
	// Recorded are the runners about which an Event was recorded because they give way.
	Recorded sets.Set[string]
	// listed is set when the API server has said which runners and claims there are; awaited are the runners that no
	// watch had shown then, and pause is the one before they are listed again.
	listed  bool
	awaited sets.Set[string]
	pause   wait.Backoff
}

// If no watch has shown a listed runner, the runners are listed again after firstListBackoff, which doubles up to the
// longest pause. Usually the watch is late. But a runner that was deleted while it was listed is never shown, and all
// new runners wait for it. That happens to runners of an old template when another manager takes over.
const firstListBackoff = time.Second

// KeepPlaces forgets the places of claims other than these.
func (s *Set) KeepPlaces(claims []corev1.PersistentVolumeClaim) {
	if len(s.Places) == 0 {
		return
	}
	exist := sets.New[types.UID]()
	for i := range claims {
		exist.Insert(claims[i].UID)
	}
	maps.DeleteFunc(s.Places, func(claim types.UID, _ places.Place) bool { return !exist.Has(claim) })
}

// Listed reports whether the API server has said which runners and claims there are.
func (s *Set) Listed() bool { return s.listed }

// List remembers what the API server has said: the set's claims, and the runners that no watch has shown yet. It is
// asked again after the longest pause, earlier if there are such runners.
func (s *Set) List(claims []volumeclaims.Claim, unseen []string, now time.Time, longest time.Duration) {
	s.Inherit(claims, now)
	s.listed, s.awaited = true, sets.New(unseen...)
	if len(unseen) == 0 || s.pause.Duration == 0 {
		s.pause = wait.Backoff{Duration: firstListBackoff, Factor: 2, Steps: math.MaxInt, Cap: longest}
	}
	s.ListAt = now.Add(longest)
	if len(unseen) > 0 {
		s.ListAt = now.Add(s.pause.Step())
	}
}

// Awaited returns the runners that the API server had and no watch has shown since. shown reports whether a watch has
// shown a runner.
func (s *Set) Awaited(shown func(runner string) bool) []string {
	for name := range s.awaited {
		if shown(name) {
			s.awaited.Delete(name)
		}
	}
	return slices.Sorted(maps.Keys(s.awaited))
}
