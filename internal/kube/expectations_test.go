package kube

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestExpectations(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	expectations := NewExpectations(clock)
	owner, other := types.NamespacedName{Name: "owner"}, types.NamespacedName{Name: "other"}
	expectations.Expect(owner, "a", "b")
	expectations.Expect(other, "c")
	if got := expectations.Pending(owner); len(got) != 2 || !got["a"].Equal(clock.Now()) {
		t.Errorf("pending %v", got)
	}
	expectations.Met(owner, "a")
	expectations.Met(owner, "never expected")
	if got := expectations.Pending(owner); len(got) != 1 {
		t.Errorf("pending %v, want b", got)
	}
	if expectations.Expects(owner, "a") || !expectations.Expects(owner, "b") || expectations.Expects(other, "b") {
		t.Error("expected: want b, and only of its owner")
	}
	expectations.Met(owner, "b")
	expectations.Forget(other)
	if len(expectations.names) != 0 {
		t.Errorf("remembered still: %v", expectations.names)
	}
}
