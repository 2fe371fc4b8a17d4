package ephemeralrunnerset

import "testing"

func BenchmarkPass1000(b *testing.B) {
	h := newHistory(1000)
	h.add(1000, busyOne)
	b.ReportAllocs()
	for b.Loop() {
		h.pass()
	}
}
