package cancellations_test

import (
	"math"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/cancellations"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// taken counts the jobs that can be set against runners.
func taken(m *cancellations.Memory, from, to time.Time) (count int) {
	for count < 1000 && m.Take(from, to) {
		count++
	}
	return count
}

func TestEachJobExcusesOneRunner(t *testing.T) {
	var m cancellations.Memory
	m.Note(7, noon)
	m.Note(7, noon.Add(time.Minute))
	if got := taken(&m, noon, noon.Add(time.Hour)); got != 7 {
		t.Errorf("%d, want the 7 that a manager which has just started finds", got)
	}
	m.Note(10, noon.Add(2*time.Minute))
	if got := taken(&m, noon.Add(3*time.Minute), noon.Add(time.Hour)); got != 0 {
		t.Errorf("%d after the cancellation", got)
	}
	if got := taken(&m, noon, noon.Add(time.Minute)); got != 0 {
		t.Errorf("%d before the cancellation", got)
	}
	if got := taken(&m, noon, noon.Add(2*time.Minute)); got != 3 || !m.Latest().Equal(noon.Add(2*time.Minute)) {
		t.Errorf("%d until the cancellation, want 3", got)
	}
}

// Anybody with rights in the namespace may write the number.
func TestAnyNumberIsBearable(t *testing.T) {
	var m cancellations.Memory
	for i, total := range []int{math.MaxInt, math.MinInt, math.MaxInt, -1, 0, 5} {
		m.Note(total, noon.Add(time.Duration(i)*time.Second))
		taken(&m, noon, noon.Add(time.Hour))
	}
	now := noon.Add(time.Minute)
	for total := range 1000 {
		now = now.Add(time.Minute)
		m.Note(total, now)
	}
	if got := taken(&m, noon, now); got > 32 {
		t.Errorf("%d cancellations are remembered", got)
	}
	m.Note(2000, now)
	m.Note(2000, now.Add(25*time.Hour))
	if got := taken(&m, noon, now.Add(25*time.Hour)); got != 0 {
		t.Errorf("%d jobs are remembered for more than a day", got)
	}
}
