package registrations

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestRemovalsAreRememberedForAWhile(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	removed := NewRemovals(clk)
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

// Whoever protects the job learns of it at once, and of no other registration.
func TestBusyRunnersAreToldOf(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	answers, name := NewRemovals(clk), types.NamespacedName{Namespace: "team", Name: "runner"}
	answers.NoteBusy(name, "before", 1) // nobody listens yet
	var told []types.NamespacedName
	answers.WhenBusy(func(runner types.NamespacedName) { told = append(told, runner) })
	answers.NoteBusy(name, "uid", 1)
	if len(told) != 1 || told[0] != name {
		t.Errorf("told of %v, want %s", told, name)
	}
	if !answers.Busy("uid", 1) || answers.Busy("uid", 2) || answers.Busy("another", 1) || answers.Has("uid", 1) {
		t.Error("another registration is taken for the busy one")
	}
	clk.Step(rememberedFor)
	if answers.Busy("uid", 1) {
		t.Error("remembered for ever")
	}
}

func TestNoMemoryKnowsNothing(t *testing.T) {
	var none *Removals
	none.WhenBusy(func(types.NamespacedName) { t.Error("told of nothing") })
	none.NoteBusy(types.NamespacedName{}, "runner", 1)
	if none.Busy("runner", 1) {
		t.Error("busy without a memory")
	}
	none.Note("runner", 1)
	if none.Has("runner", 1) {
		t.Error("remembered without a memory")
	}
}
