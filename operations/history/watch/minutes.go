package watch

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/operations/history/ledger"
)

// minutes are what scale sets looked like in the last minutes, by the set. A job may take less than a minute, so that who
// looks once a minute would miss it.
type minutes struct {
	mu sync.Mutex
	of map[types.NamespacedName][]minute
}

// minute has the most of each figure within a minute in which a set has changed, and the last of all others.
type minute struct {
	begin     time.Time
	most, end ledger.Sample
}

// keptMinutes is how many minutes are remembered: a sample is written when its minute is over, or a little later.
const keptMinutes = 3

// saw adds how a set looks at a moment.
func (m *minutes) saw(looks ledger.Sample, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.NamespacedName][]minute{}
	}
	set, begin := types.NamespacedName{Namespace: looks.Namespace, Name: looks.Set}, at.UTC().Truncate(time.Minute)
	known := m.of[set]
	if len(known) == 0 || !known[len(known)-1].begin.Equal(begin) {
		began := looks
		if len(known) > 0 {
			began = known[len(known)-1].end
		}
		known = append(known, minute{begin, began, began})
	}
	last := &known[len(known)-1]
	last.most, last.end = mostOf(last.most, looks), looks
	m.of[set] = known[max(0, len(known)-keptMinutes):]
}

// in returns what a set looked like in the minute that begins at a time, by what it looks like now: without a change it
// looked so.
func (m *minutes) in(begin time.Time, looks ledger.Sample) ledger.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	sample := looks
	known := m.of[types.NamespacedName{Namespace: looks.Namespace, Name: looks.Set}]
	for i := range known {
		switch at := known[i].begin; {
		case at.Equal(begin):
			sample = known[i].most
		case at.Before(begin):
			sample = known[i].end
		}
	}
	sample.At = begin
	return sample
}

// mostOf returns how a set looks, with the larger figures of two moments.
func mostOf(before, looks ledger.Sample) ledger.Sample {
	looks.Running, looks.Waiting = max(before.Running, looks.Running), max(before.Waiting, looks.Waiting)
	return looks
}
