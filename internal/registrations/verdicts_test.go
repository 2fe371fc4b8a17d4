package registrations_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/registrations"
)

var name = types.NamespacedName{Namespace: "team", Name: "runner"}

// verdictsLast is far longer than the runner's own controller needs to act on a verdict.
const verdictsLast = 5 * time.Minute

func TestVerdictsAreRememberedForAWhile(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	verdicts := registrations.NewVerdicts(clk)
	want := func(id int, want registrations.Answer) {
		t.Helper()
		if got := verdicts.Of(registrations.Registration{"uid", id}); got != want {
			t.Errorf("the verdict about registration %d is %v, want %v", id, got, want)
		}
	}
	verdicts.Give(name, registrations.Registration{"uid", 1}, registrations.Removed)
	clk.Step(verdictsLast - time.Second)
	verdicts.Give(name, registrations.Registration{"uid", 2}, registrations.Busy)
	want(1, registrations.Removed)
	want(2, registrations.Busy)
	want(3, registrations.None)
	if verdicts.Of(registrations.Registration{"another", 1}) != registrations.None {
		t.Error("another runner's registration is taken for this one's")
	}
	clk.Step(time.Second)
	want(1, registrations.None)
	want(2, registrations.Busy)
	verdicts.Give(name, registrations.Registration{"uid", 2}, registrations.Removed)
	want(2, registrations.Removed)
	clk.Step(verdictsLast)
	want(2, registrations.None)
}

// Whoever protects the job and writes the runner's status learns of it immediately, and a single time.
func TestRunnersAreToldOf(t *testing.T) {
	verdicts := registrations.NewVerdicts(clocktesting.NewFakeClock(time.Unix(1_000_000, 0)))
	verdicts.Give(name, registrations.Registration{"before", 1}, registrations.Busy) // nobody listens yet
	var told []string
	verdicts.WhenGiven(func(runner types.NamespacedName) { told = append(told, runner.String()) })
	for _, verdict := range []registrations.Answer{registrations.Busy, registrations.Busy, registrations.Removed,
		registrations.NoJob, registrations.NoJob, registrations.NoKnownJob} {
		verdicts.Give(name, registrations.Registration{"uid", 1}, verdict)
	}
	if want := slices.Repeat([]string{name.String()}, 3); !slices.Equal(told, want) { // Busy, NoJob, NoKnownJob
		t.Errorf("told of %v, want %v", told, want)
	}
}
