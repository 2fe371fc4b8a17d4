package placement

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// The highest number of placed pods counts for recently: a job's end and the next placement lie seconds apart.
	recently = 30 * time.Second
	// recentSeconds is the number of the clock's seconds that such a span touches.
	recentSeconds = int64(recently/time.Second) + 1
	// A pod overtakes another one only if it is younger by overtakingAge: pods of one burst are placed in any order.
	overtakingAge = time.Minute
	// In a small set, leastOvertakers pods must have overtaken another one before its wait says nothing about the
	// others.
	leastOvertakers = 10
)

// Pod is the pod that a runner's job needs: the runner's pod or, if the job has a pod of its own that has no node, the
// job's.
type Pod struct {
	// CreatedAt is the pod's creation, and PlacedAt the moment at which it was given a node, by the API server's clock.
	// PlacedAt is zero if the pod has no node, whatever the reason. The pod's wait lies between them.
	CreatedAt, PlacedAt time.Time
}

// Pods counts the pods of a set that have a node and those that wait for one. An event costs the same in a set of 10 as
// in one of 5,000, but for the moving of some kilobytes. The zero value has no pods.
type Pods struct {
	pods   map[types.UID]Pod
	placed int
	// waiting are the creation times of the pods without a node, oldest first, and overtakers those of the youngest
	// pods that have been given one, as many as matter.
	waiting, overtakers []time.Time
	// highs has the highest number of placed pods in each of the last seconds in which it changed, and peak is the highest
	// number since the last decision.
	highs [recentSeconds]high
	peak  int
	// longestWait is the longest wait of the pods placed since waitsFrom.
	longestWait time.Duration
	waitsFrom   time.Time
}

type high struct{ second, placed int64 }

// See takes in the present state of a runner's pod. Nothing changes if the pod is as it was.
func (p *Pods) See(runner types.UID, pod Pod, now time.Time) {
	before, known := p.pods[runner]
	if known && before.CreatedAt.Equal(pod.CreatedAt) && before.PlacedAt.Equal(pod.PlacedAt) {
		return
	}
	p.Forget(runner, now)
	if p.pods == nil {
		p.pods = map[types.UID]Pod{}
	}
	p.pods[runner] = pod
	if pod.PlacedAt.IsZero() {
		p.waiting = inserted(p.waiting, pod.CreatedAt)
		return
	}
	p.change(+1, now)
	if !pod.PlacedAt.Before(p.waitsFrom) {
		p.longestWait = max(p.longestWait, pod.PlacedAt.Sub(pod.CreatedAt))
	}
	if !known || before.PlacedAt.IsZero() {
		p.overtakers = inserted(p.overtakers, pod.CreatedAt)
		if most := 2 * p.enoughOvertakers(); len(p.overtakers) > 2*most {
			p.overtakers = slices.Clone(p.overtakers[len(p.overtakers)-most:])
		}
	}
}

// Forget takes in that a runner has ended or has no pod.
func (p *Pods) Forget(runner types.UID, now time.Time) {
	pod, known := p.pods[runner]
	switch {
	case !known:
		return
	case pod.PlacedAt.IsZero():
		i, _ := slices.BinarySearchFunc(p.waiting, pod.CreatedAt, time.Time.Compare)
		p.waiting = slices.Delete(p.waiting, i, i+1)
	default:
		p.change(-1, now)
	}
	delete(p.pods, runner)
}

// change changes the number of placed pods. The higher of the numbers before and after counts for highs.
func (p *Pods) change(by int, now time.Time) {
	second, before := now.Unix(), p.placed
	p.placed += by
	p.peak = max(p.peak, before, p.placed)
	entry := &p.highs[(second%recentSeconds+recentSeconds)%recentSeconds]
	if entry.second != second {
		*entry = high{second: second}
	}
	entry.placed = max(entry.placed, int64(before), int64(p.placed))
}

// recent returns the highest number of placed pods of late, and the time at which that falls if nothing else changes;
// zero means never.
func (p *Pods) recent(now time.Time) (highest int, falls time.Time) {
	highest = p.placed
	for _, entry := range p.highs {
		until := time.Unix(entry.second, 0).Add(recently + time.Second)
		if int(entry.placed) <= p.placed || entry.second > now.Unix() || !now.Before(until) {
			continue
		}
		if falls.IsZero() || until.Before(falls) {
			falls = until
		}
		highest = max(highest, int(entry.placed))
	}
	return highest, falls
}

// enoughOvertakers returns the number of pods that have to overtake another one to make it stuck.
func (p *Pods) enoughOvertakers() int { return max(leastOvertakers, p.placed) }

// inserted returns the sorted times with t inserted. Most new times are the latest.
func inserted(sorted []time.Time, t time.Time) []time.Time {
	return slices.Insert(sorted, after(sorted, t), t)
}

// after returns the index of the first of the sorted times that is after t.
func after(sorted []time.Time, t time.Time) int {
	i, _ := slices.BinarySearchFunc(sorted, t, func(have, t time.Time) int {
		if have.After(t) {
			return 1
		}
		return -1
	})
	return i
}
