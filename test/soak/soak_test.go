package soak

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/pool"
)

var soakLength = flag.Duration("soak.length", 5*time.Minute,
	"for how much simulated time jobs are queued, one every 2 s")

const (
	// step is the time between two passes of the controllers.
	step = 2 * time.Second
	// After warmUp maps and buffers have reached their final size.
	warmUp = 2 * time.Minute
	// drainTime exceeds the sum of the remaining jobs, a retry with its pause, and the 3 s for which a slot is held.
	drainTime = time.Minute
	// The heap may grow by steadyHeap bytes. In half an hour, 128 bytes kept for each of 900 runners would exceed it.
	steadyHeap = 100 << 10
)

// Each figure is taken when all jobs are done. There are no runners then, so everything in the heap beyond the first
// figure was left behind.
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
			t.Errorf("%d goroutines are left, there were %d before", left, goroutines)
		}
	})
}

// after queues jobs for the given time and returns the bytes of the heap and the number of goroutines after all jobs
// are done.
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
		s.Fatalf("%d runners, %d jobs and %d registrations are left: %v",
			len(runners), len(s.waiting), len(s.github.names), s.describe())
	}
	runtime.GC()
	runtime.GC() // frees what the finalizers of the first one have released
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc, runtime.NumGoroutine()
}
