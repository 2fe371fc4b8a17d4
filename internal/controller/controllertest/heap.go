package controllertest

import (
	"runtime"
	"testing"
)

// WantNothingLeft fails if rounds leave something in memory: each begins with objects that no round before it has
// shown, and ends when they are gone. The least that a map can keep of a round is a key, of 16 bytes or more.
func WantNothingLeft(t testing.TB, round func(i int)) {
	t.Helper()
	const rounds, most = 10_000, 10_000 * 10 // bytes
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // the first one leaves what sync.Pool has for another round
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	for i := range rounds {
		round(i) // until everything has the room that it needs
	}
	before := heap()
	for i := range rounds {
		round(rounds + i)
	}
	after := heap()
	runtime.KeepAlive(round) // and so what it remembers in
	if after > before+most {
		t.Errorf("%d bytes are left of %d rounds", after-before, rounds)
	}
}
