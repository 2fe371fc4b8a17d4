package soak

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/pool"
)

var soakLength = flag.Duration("soak.length", 5*time.Minute, "how much simulated time jobs come for, half a job a second")

const (
	// step is how much time passes between two looks of the controllers.
	step = 2 * time.Second
	// warmUp is when maps and buffers have their size.
	warmUp = 2 * time.Minute
	// drainTime is longer than a job, a retry with its pause, and the 3 s for which a slot is held.
	drainTime = time.Minute
	// steadyHeap is how much the heap may differ. In half an hour, 128 bytes left of each of 900 runners would be more.
	steadyHeap = 100 << 10
)

// Each figure is taken when all jobs are done: then there is no runner, and whatever is in memory beyond the first figure
// has been left there.
func TestRunnersLeaveNothingInMemory(t *testing.T) {
	controllertest.InBubble(t, func(t *testing.T, workers *pool.Pool) {
		s := newSite(t, workers)
		heap, goroutines := s.after(warmUp)
		middle, _ := s.after(*soakLength / 2)
		end, left := s.after(*soakLength / 2)
		t.Logf("after %d jobs on %d runners: heap %d, %d, %d KiB, goroutines %d and %d",
			s.jobs, s.github.registered, heap>>10, middle>>10, end>>10, goroutines, left)
		if max(middle, end) > heap+steadyHeap {
			t.Errorf("the heap grew from %d to %d and %d bytes", heap, middle, end)
		}
		if left > goroutines {
			t.Errorf("%d goroutines, %d before", left, goroutines)
		}
	})
}

// after lets jobs come for so long, and returns what is in use when all of them are done: bytes of the heap, goroutines.
func (s *site) after(length time.Duration) (heap uint64, goroutines int) {
	s.Helper()
	for range length / step {
		s.queue()
		s.pass()
	}
	for range drainTime / step {
		s.pass()
	}
	if runners := s.runners(); len(runners)+len(s.waiting)+len(s.github.names) > 0 {
		s.Fatalf("%d runners, %d jobs and %d registrations are left: %v", len(runners), len(s.waiting), len(s.github.names), s.describe())
	}
	runtime.GC()
	runtime.GC() // what finalizers of the first one let go
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc, runtime.NumGoroutine()
}
