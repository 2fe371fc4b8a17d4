package listener

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	// soakLength is the simulated time, with soakRate jobs a second: 36,000 jobs.
	soakLength, soakRate = time.Hour, 10
	// Maps and buffers have reached their final size after warmUp.
	warmUp = 10 * time.Minute
	// The heap may differ by steadyHeap: 8 bytes left over from each job would be 240 KiB.
	steadyHeap = 200 << 10
)

// An hour of jobs, with a session lost every minute and each service down now and then, leaves nothing in memory.
func TestSoak(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.log = logr.Discard()
		s.file.MaxRunners = 10 * soakRate
		soak := soaking{scenario: s}
		s.start()
		soak.run(warmUp)
		heap, goroutines := footprint()
		soak.run(soakLength / 2)
		middle, _ := footprint()
		soak.run(soakLength / 2)
		end, left := footprint()
		t.Logf(
			"after %d jobs: heap %d, %d, %d KiB, goroutines %d and %d",
			soak.jobs, heap>>10, middle>>10, end>>10, goroutines, left,
		)
		if max(middle, end) > heap+steadyHeap {
			t.Errorf("the heap grew from %d to %d and %d bytes", heap, middle, end)
		}
		if left > goroutines {
			t.Errorf("%d goroutines, %d before", left, goroutines)
		}
	})
}

// soaking makes each second's jobs: offered in one message, assigned, started and completed in the next three.
type soaking struct {
	*scenario
	seconds int
	jobs    int64
}

func (s *soaking) run(length time.Duration) {
	for range length / time.Second {
		s.seconds++
		s.disturb()
		s.jobs += soakRate
		s.send(s.message())
		s.pass(time.Second)
	}
	s.pass(time.Minute) // pending retries end
	s.forget()
}

func (s *soaking) message() *actions.Message {
	var entries []string
	for i := range int64(soakRate) {
		id := s.jobs - i
		assigned, started, completed := id-soakRate, id-2*soakRate, id-3*soakRate
		entries = append(entries, fmt.Sprintf("offer %d", id), fmt.Sprintf("assign %d", assigned),
			fmt.Sprintf("start %d runner-%d", started, started),
			fmt.Sprintf("complete %d runner-%d", completed, completed))
	}
	return message(int64(s.seconds), 2*soakRate, entries...)
}

// disturb makes the API server fail for 5 s of each minute, loses the session, and makes GitHub fail for 5 s.
func (s *soaking) disturb() {
	switch s.seconds % 60 {
	case 10:
		s.cluster.OnPublish = func() error { return errBroken }
		s.cluster.OnJob = func(string) error { return errBroken }
	case 15:
		s.cluster.OnPublish, s.cluster.OnJob = nil, nil
	case 30:
		s.github.evict()
	case 40:
		s.github.onPoll = func() error { return errBroken }
		s.github.onAcquire = func([]int64) ([]int64, error) { return nil, errBroken }
	case 45:
		s.github.onPoll, s.github.onAcquire = nil, nil
	}
}

// forget discards the fakes' records.
func (s *soaking) forget() {
	g, c := s.github, s.cluster
	g.mu.Lock()
	defer g.mu.Unlock()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	g.calls, g.polls, g.clients = nil, nil, nil
	c.Calls, c.Published, c.States, c.Jobs = nil, nil, nil, nil
}

// footprint returns the bytes of the heap in use and the number of goroutines.
func footprint() (heap uint64, goroutines int) {
	runtime.GC()
	runtime.GC() // frees what the finalizers of the first run released
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc, runtime.NumGoroutine()
}
