package mark_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/mark"
	"github.com/harrier-ci/harrier/internal/pool"
)

var other = types.NamespacedName{Namespace: "arc-runners", Name: "other"}

func newGate() *mark.Gate { return mark.NewGate(pool.New(1, clock.RealClock{})) }

// Reports wait until pods that have ended are handled, and while enough passes are writing.
func TestGateHoldsReportsBack(t *testing.T) {
	gate := newGate()
	closed := func() bool { return gate.Defers(newRunner(), 0) }
	if closed() {
		t.Error("the gate is closed for nothing")
	}
	if gate.PodEnded(other); !closed() {
		t.Error("the gate is open though a pod has ended")
	}
	if gate.Handled(other); closed() {
		t.Error("the gate is closed for a pod that was handled")
	}
	var leave []func()
	for range mark.MaxWrites {
		leave = append(leave, gate.Enter())
	}
	if !closed() {
		t.Errorf("the gate is open though %d passes are writing", mark.MaxWrites)
	}
	if leave[0](); closed() {
		t.Error("the gate is closed though one has left")
	}
}

func TestReportsAreDeferredLessTheLongerARunnerIsUp(t *testing.T) {
	gate := newGate()
	deferred := func(up time.Duration) bool { return gate.Defers(newRunner(), up) }
	gate.PodEnded(other)
	if !deferred(0) || deferred(mark.DeferTimeout) {
		t.Errorf("deferred while an ended pod waits: %t, and %t after %s; want only the first", deferred(0),
			deferred(mark.DeferTimeout), mark.DeferTimeout)
	}
	for range mark.MaxWrites {
		gate.Enter()
	}
	if !deferred(mark.DeferTimeout) || deferred(2*mark.DeferTimeout) {
		t.Errorf("deferred while others write: %t after %s, %t after twice that; want only the first",
			deferred(mark.DeferTimeout), mark.DeferTimeout, deferred(2*mark.DeferTimeout))
	}
}
