package removals

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestRemovalsAreRememberedForAWhile(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	removed := New(clk)
	want := func(id int, want bool) {
		t.Helper()
		if got := removed.Has("runner", id); got != want {
			t.Errorf("registration %d is remembered: %t, want %t", id, got, want)
		}
	}
	removed.Note("runner", 1)
	clk.Step(rememberedFor - time.Second)
	removed.Note("runner", 2)
	want(1, true)
	want(3, false)
	if removed.Has("another", 1) {
		t.Error("another runner's registration is taken for this one's")
	}
	clk.Step(time.Second)
	want(1, false)
	want(2, true)
	clk.Step(rememberedFor)
	want(2, false)
	removed.Note("runner", 4)
	clk.Step(time.Hour)
	want(4, false)
}

func TestNoMemoryKnowsNothing(t *testing.T) {
	var none *Memory
	none.Note("runner", 1)
	if none.Has("runner", 1) {
		t.Error("remembered without a memory")
	}
}
