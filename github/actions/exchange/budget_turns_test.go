package exchange

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harrier-ci/harrier/github/actions/failure"
)

// These tests stand inside of the package, because only there a bubble tells that a call waits for its turn: calls of
// Do use sockets, for which synctest can't wait.

// part is what one call asks of a budget, in the background.
type part struct {
	of      *Budget
	own     reservation
	granted chan error
}

func ask(ctx context.Context, budget *Budget, caller *Caller, size int64) *part {
	p := &part{of: budget, own: reservation{owner: caller.budgetOwner()}, granted: make(chan error, 1)}
	go func() { p.granted <- budget.raise(ctx, &p.own, size) }()
	synctest.Wait()
	return p
}

// has reports whether the budget has granted the part.
func (p *part) has() bool {
	synctest.Wait()
	return len(p.granted) > 0
}

func (p *part) giveBack() {
	p.of.free(&p.own)
	synctest.Wait()
}

// One client can't take what is left for others, however much it asks for.
func TestOneClientGetsItsShareOfTheBudgetOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget, greedy, other := NewBudget(100, 50), new(Caller), new(Caller)
		var parts []*part
		for range 10 {
			parts = append(parts, ask(t.Context(), budget, greedy, 25))
		}
		for i, p := range parts {
			if p.has() != (i < 2) {
				t.Errorf("call %d of the greedy client, which may have two: granted %t", i, p.has())
			}
		}
		modest := ask(t.Context(), budget, other, 50)
		if !modest.has() {
			t.Error("the other client got nothing")
		}
		third := ask(t.Context(), budget, new(Caller), 1)
		if third.has() {
			t.Error("there was something left of 100 bytes, of which 100 are in use")
		}
		modest.giveBack()
		for i, p := range parts { // what is given back goes to those that wait
			if !p.has() {
				t.Errorf("call %d got nothing after those before it were done", i)
			}
			p.giveBack()
		}
		third.giveBack()
		if !ask(t.Context(), budget, greedy, 50).has() || !ask(t.Context(), budget, other, 50).has() {
			t.Error("a part of the budget is still in use")
		}
	})
}

// Small answers don't overtake a large one forever, and an answer whose time is up makes room for those behind it.
func TestTheBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(100, 100)
		if !ask(t.Context(), budget, new(Caller), 60).has() {
			t.Fatal("an empty budget granted nothing")
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &failure.TimeoutError{Limit: time.Second})
		defer cancel()
		large := ask(ctx, budget, new(Caller), 80)
		small := ask(t.Context(), budget, new(Caller), 10)
		if large.has() || small.has() {
			t.Errorf("granted: large %t, small %t; a small answer must not overtake a large one",
				large.has(), small.has())
		}
		var late *failure.TimeoutError
		if err := <-large.granted; !errors.As(err, &late) { // the bubble's time passes while all wait
			t.Errorf("got %v, want the large one's deadline", err)
		}
		if err := <-small.granted; err != nil {
			t.Errorf("the small one got %v", err)
		}
		if !ask(t.Context(), budget, new(Caller), 30).has() {
			t.Error("the large one holds something, or the small one more than it asked for")
		}
		if ask(t.Context(), budget, new(Caller), 1).has() {
			t.Error("the small one holds less than it asked for")
		}
	})
}
