package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/internal/capacity/placement"
)

// history has what really happens to a set: any pods, ages, refusals, limits and restarts. It counts by itself what the
// rule counts.
type history struct {
	random *rand.Rand
	now    time.Time
	memory *placement.Memory
	pods   map[types.UID]placement.Pod
	made   int
	seen   placement.Seen
	last   placement.Decision

	most      int // pods that were ever placed at the same time
	changes   []change
	overtaken map[types.UID]int
	announced time.Time // when that number was changed last
	restarted bool
}

// change is the highest number of placed pods around a moment in which it changed.
type change struct {
	at      time.Time
	highest int
}

func newHistory(seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 8)), now: epoch, pods: map[types.UID]placement.Pod{},
		overtaken: map[types.UID]int{}}
	h.memory = placement.Remember(nil, h.now)
	h.seen = placement.Seen{Max: 1 + h.random.IntN(200), Timeout: placement.DefaultTimeout}
	return h
}

func (h *history) placed() (n int) {
	for _, pod := range h.pods {
		if !pod.PlacedAt.IsZero() {
			n++
		}
	}
	return n
}

// recent returns the highest number of placed pods of the last 30 s, in whole seconds.
func (h *history) recent() int {
	highest := h.placed()
	for _, c := range h.changes {
		if h.now.Unix()-c.at.Unix() <= 30 {
			highest = max(highest, c.highest)
		}
	}
	return highest
}

// stuck returns the number of pods that are stuck, and the ages of the others that wait.
func (h *history) stuck() (stuck int, ages []time.Duration) {
	for id, pod := range h.pods {
		switch {
		case !pod.PlacedAt.IsZero():
		case h.overtaken[id] >= max(10, h.placed()):
			stuck++
		default:
			ages = append(ages, h.now.Sub(pod.CreatedAt))
		}
	}
	slices.Sort(ages)
	return stuck, ages
}

// set changes a pod, for the rule and for the oracle. A zero pod is gone.
func (h *history) set(id types.UID, pod placement.Pod) {
	before := h.placed()
	if pod == (placement.Pod{}) {
		delete(h.pods, id)
		delete(h.overtaken, id)
		h.memory.Forget(id, h.now)
	} else {
		h.pods[id] = pod
		h.memory.See(id, pod, h.now)
		if !pod.PlacedAt.IsZero() {
			h.overtake(pod)
		}
	}
	if after := h.placed(); after != before {
		h.changes = append(h.changes, change{h.now, max(before, after)})
		h.most = max(h.most, after)
	}
}

func (h *history) overtake(by placement.Pod) {
	for id, pod := range h.pods {
		if pod.PlacedAt.IsZero() && by.CreatedAt.Sub(pod.CreatedAt) >= time.Minute {
			h.overtaken[id]++
		}
	}
}

// some returns up to n of the pods that have a node, or have none.
func (h *history) some(n int, placed bool) []types.UID {
	var fitting []types.UID
	for _, id := range slices.Sorted(maps.Keys(h.pods)) {
		if h.pods[id].PlacedAt.IsZero() != placed {
			fitting = append(fitting, id)
		}
	}
	h.random.Shuffle(len(fitting), func(i, k int) { fitting[i], fitting[k] = fitting[k], fitting[i] })
	return fitting[:min(n, len(fitting))]
}

// step lets something happen immediately, or some time pass.
func (h *history) step() {
	h.restarted = false
	switch h.random.IntN(12) {
	case 0, 1, 2:
		for range 1 + h.random.IntN(20) {
			h.made++
			h.set(types.UID(fmt.Sprint(h.made)), placement.Pod{CreatedAt: h.now})
		}
	case 3, 4, 5:
		for _, id := range h.some(1+h.random.IntN(20), false) {
			h.set(id, placement.Pod{CreatedAt: h.pods[id].CreatedAt, PlacedAt: h.now})
		}
	case 6, 7:
		for _, id := range h.some(1+h.random.IntN(20), h.random.IntN(3) > 0) {
			h.set(id, placement.Pod{})
		}
	case 8:
		h.seen.RefusedSince = time.Time{}
		if h.random.IntN(3) == 0 {
			h.seen.RefusedSince = h.now
		}
	case 9:
		h.seen.Failing, h.seen.Rejected = h.random.IntN(12) == 0, h.random.IntN(12) == 0
		h.seen.Spare = h.random.IntN(5)
		if h.random.IntN(8) == 0 {
			h.seen.Max = 1 + h.random.IntN(200)
		}
	case 10:
		if h.random.IntN(4) == 0 {
			h.restart()
		}
	default:
		pauses := []time.Duration{10 * time.Second, 2 * time.Minute, 30 * time.Minute, 30 * time.Hour}
		longest := pauses[min(3, h.random.IntN(16)/4)]
		h.pass(time.Duration(h.random.Int64N(int64(longest))).Truncate(time.Second))
	}
	h.seen.Working = min(h.placed(), h.random.IntN(20)+h.placed()/2)
	h.seen.Assigned = len(h.pods) + h.random.IntN(10)
}

// pass lets time pass. The rule is asked again when it wanted to be.
func (h *history) pass(time time.Duration) {
	for end := h.now.Add(time); h.now.Before(end); {
		h.now = end
		if next := h.last.Next; !next.IsZero() && next.Before(end) {
			h.now = next
			h.seen.Now = h.now
			h.decide()
		}
	}
}

func (h *history) restart() {
	state := h.last.State
	h.memory = placement.Remember(&state, h.now)
	h.overtaken, h.changes, h.restarted = map[types.UID]int{}, nil, true
	for id, pod := range h.pods {
		h.memory.See(id, pod, h.now)
		if !pod.PlacedAt.IsZero() {
			h.overtake(pod)
		}
	}
}

func (h *history) decide() placement.Decision {
	h.seen.Now = h.now
	before := h.last
	h.last = h.memory.Decide(h.seen)
	if h.last.Announced != before.Announced {
		h.announced = h.now
	}
	return before
}

// TestInvariants holds any history against what must be true of each decision.
func TestInvariants(t *testing.T) {
	for seed := range uint64(30) {
		h := newHistory(seed)
		for n := range 300 {
			h.step()
			changedAt := h.announced
			before := h.decide()
			if broken := h.broken(before, changedAt); broken != "" {
				t.Fatalf("seed %d, step %d: %s\nseen %+v\nbefore %+v\nnow %+v", seed, n, broken, h.seen, before, h.last)
			}
		}
	}
}

// broken says which rule a decision breaks.
func (h *history) broken(before placement.Decision, changedAt time.Time) string {
	stuck, ages := h.stuck()
	switch {
	case h.last.Placed != h.placed() || h.last.Waiting != len(ages) || h.last.Stuck != stuck:
		return fmt.Sprintf("%d are placed, %d wait, %d are stuck", h.placed(), len(ages), stuck)
	case !h.last.Next.IsZero() && !h.last.Next.After(h.now):
		return "it wants to be asked again at once"
	}
	if again := h.memory.Decide(h.seen); !cmp.Equal(again, h.last) {
		return "asked again, it says something else: " + cmp.Diff(h.last, again)
	}
	if broken := h.brokenNumbers(stuck, ages); broken != "" {
		return broken
	}
	return h.brokenChange(before, changedAt)
}

// brokenNumbers says which rule the numbers of a decision break.
func (h *history) brokenNumbers(stuck int, ages []time.Duration) string {
	now, recent := h.last, h.recent()
	held := h.placed() + len(ages) - h.seen.Spare
	usual := max(recent+1, h.seen.Working+1)
	late := len(ages) > 0 && ages[len(ages)-1] >= time.Minute
	switch {
	case now.Announced < min(h.seen.Working+1, h.seen.Max) || now.Announced > h.seen.Max || now.Announced == 0:
		return "announced is out of bounds"
	case now.Mark > h.most:
		return fmt.Sprintf("the mark is above %d, the most that were placed", h.most)
	case now.Limit > max(now.Mark+now.Window, usual, held+1)+stuck:
		return "the limit is above all that it may follow from"
	case late && now.Limit > max(held, usual)+stuck && !h.probeIsDue(ages, held, usual, stuck):
		return "more comes in while a pod waits"
	case now.Failed && (now.Mark > recent || now.Window != 1):
		return "nothing more finds a node, and the mark or the window is as before"
	}
	return ""
}

// brokenChange says which rule the change of the announced number breaks.
func (h *history) brokenChange(before placement.Decision, changedAt time.Time) string {
	now := h.last.Announced
	if now == before.Announced || before.Announced < min(h.seen.Working+1, h.seen.Max) ||
		before.Announced > h.seen.Max {
		return ""
	}
	switch {
	case h.restarted && now > before.Announced:
		return "a restart announces more"
	case h.now.Sub(changedAt) < 5*time.Second:
		return "the announced number changes again within five seconds"
	}
	return ""
}

// probeIsDue reports whether one more job may be let in.
func (h *history) probeIsDue(ages []time.Duration, held, usual, stuck int) bool {
	youngest, oldest := ages[0], ages[len(ages)-1]
	return h.seen.RefusedSince.IsZero() && youngest >= h.seen.Timeout && youngest >= oldest/2 &&
		h.last.Limit <= max(held+1, usual)+stuck
}

// TestPasses: more questions between two events change nothing, as long as it is asked when it wants to be.
func TestPasses(t *testing.T) {
	for seed := range uint64(12) {
		seldom, often := newHistory(seed), newHistory(seed)
		random := rand.New(rand.NewPCG(seed, 1))
		for n := range 300 {
			seldom.step()
			often.step()
			for range random.IntN(3) {
				often.decide()
			}
			seldom.decide()
			often.decide()
			if diff := cmp.Diff(seldom.last, often.last); diff != "" {
				t.Fatalf("seed %d, step %d: %s", seed, n, diff)
			}
		}
	}
}

// TestTurnover: pods that come and go without there ever being more of them grow neither the mark nor the window.
func TestTurnover(t *testing.T) {
	h := newHistory(1)
	h.seen.Max = 1000
	for n := range 2000 {
		h.set(types.UID(fmt.Sprint(n)), placement.Pod{CreatedAt: h.now, PlacedAt: h.now.Add(time.Second)})
		if n >= 8 {
			h.set(types.UID(fmt.Sprint(n-8)), placement.Pod{})
		}
		h.seen.Assigned = 1000
		h.pass(20 * time.Second)
		h.decide()
	}
	if h.last.Mark > 9 || h.last.Window != 10 {
		t.Errorf("%+v", h.last)
	}
}

// TestClocks: clocks that jump, and a status that somebody has written, break no bound.
func TestClocks(t *testing.T) {
	for seed := range uint64(30) {
		h := newHistory(seed)
		most := 1 << h.random.IntN(40)
		h.memory = placement.Remember(&placement.State{
			Mark: h.random.IntN(most) - 5, Window: h.random.IntN(most) - 5, Announced: h.random.IntN(most) - 5,
			ReachedAt: []time.Time{{}, epoch, epoch.Add(100000 * time.Hour), time.Unix(-1<<40, 0)}[h.random.IntN(4)],
		}, h.now)
		for range 200 {
			h.last.Next = time.Time{} // nobody comes when it wants
			h.step()
			if h.random.IntN(4) == 0 {
				h.now = h.now.Add(time.Duration(h.random.Int64N(int64(96*time.Hour))) - 48*time.Hour)
			}
			h.decide()
			if now := h.last; now.Announced < min(h.seen.Working+1, h.seen.Max) || now.Announced > h.seen.Max ||
				now.Window < 1 || now.Mark < 0 {
				t.Fatalf("seed %d: %+v of %+v", seed, now, h.seen)
			}
		}
	}
}
