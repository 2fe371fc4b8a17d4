package registrations

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

var name = types.NamespacedName{Namespace: "team", Name: "runner"}

func TestVerdictsAreRememberedForAWhile(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	verdicts := NewVerdicts(clk)
	want := func(id int, want Answer) {
		t.Helper()
		if got := verdicts.Of(Registration{"uid", id}); got != want {
			t.Errorf("the verdict about registration %d is %v, want %v", id, got, want)
		}
	}
	verdicts.Give(name, Registration{"uid", 1}, Removed)
	clk.Step(verdictTimeout - time.Second)
	verdicts.Give(name, Registration{"uid", 2}, Busy)
	want(1, Removed)
	want(2, Busy)
	want(3, None)
	if verdicts.Of(Registration{"another", 1}) != None {
		t.Error("another runner's registration is taken for this one's")
	}
	clk.Step(time.Second)
	want(1, None)
	want(2, Busy)
	verdicts.Give(name, Registration{"uid", 2}, Removed)
	want(2, Removed)
	clk.Step(verdictTimeout)
	want(2, None)
}

// Whoever protects the job and writes the runner's status learns of it immediately, and a single time.
func TestRunnersAreToldOf(t *testing.T) {
	verdicts := NewVerdicts(clocktesting.NewFakeClock(time.Unix(1_000_000, 0)))
	verdicts.Give(name, Registration{"before", 1}, Busy) // nobody listens yet
	var told []string
	verdicts.WhenGiven(func(runner types.NamespacedName) { told = append(told, runner.String()) })
	for _, verdict := range []Answer{Busy, Busy, Removed, NoJob, NoJob, NoKnownJob} {
		verdicts.Give(name, Registration{"uid", 1}, verdict)
	}
	if want := slices.Repeat([]string{name.String()}, 3); !slices.Equal(told, want) { // Busy, NoJob, NoKnownJob
		t.Errorf("told of %v, want %v", told, want)
	}
}
