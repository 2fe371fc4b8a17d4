package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harrier-ci/harrier/github/actions/failure"
)

// 128 calls at a time to a server that sends too much stay within the budget, all fail, and nothing of it is kept.
func TestManyLargeAnswersStayWithinTheBudget(t *testing.T) {
	const calls, total, share = 128, 24 << 20, 12 << 20 // as a manager has them
	budget := NewBudget(total, share)
	caller, request := asked(t, Options{Budget: budget}, func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("x", 32<<10))
		for sent := 0; sent < 15<<20; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	caller.Deadlines.Attempt = 2 * time.Minute // this is about memory, on machines that may be busy
	var most atomic.Int64
	done, watched := make(chan struct{}), make(chan struct{})
	go func() { // the largest heap between collections, garbage included
		defer close(watched)
		for {
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			most.Store(max(most.Load(), int64(memory.HeapInuse)))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	var group sync.WaitGroup
	for range calls {
		group.Go(func() {
			if _, err := caller.Do(t.Context(), request); !errors.Is(err, failure.ErrTruncated) {
				t.Errorf("got %v, want failure.ErrTruncated", err)
			}
		})
	}
	group.Wait()
	close(done)
	<-watched
	// The server's buffers are part of the process, and the collector may be late on a busy machine, where 162 MiB were
	// seen. 128 × 15 MiB would be 1,920 MiB.
	if most.Load() > 320<<20 {
		t.Errorf("the heap had %d MiB", most.Load()>>20)
	}
	if budget.used != 0 || len(budget.byCaller) != 0 || len(budget.waiting) != 0 {
		t.Errorf(
			"%d bytes are still in use, by %d callers, %d waiting",
			budget.used, len(budget.byCaller), len(budget.waiting),
		)
	}
}

// One client can't take what is left for others, however much it asks for.
func TestOneClientGetsItsShareOfTheBudgetOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(100, 50)
		greedy, other := new(Caller), new(Caller)
		held := make([]reservation, 10)
		for i := range held {
			held[i].caller = greedy
			go func() { _ = budget.raise(t.Context(), &held[i], 25) }()
		}
		synctest.Wait()
		if budget.used != 50 || len(budget.waiting) != 8 {
			t.Errorf("the greedy client got %d, and %d of its calls wait", budget.used, len(budget.waiting))
		}
		modest := reservation{caller: other}
		if err := budget.raise(t.Context(), &modest, 50); err != nil || budget.used != 100 {
			t.Errorf("the other client got nothing: %v", err)
		}
		budget.free(&modest)
		for range 5 { // what is given back goes to those that wait
			for i := range held {
				budget.free(&held[i])
			}
			synctest.Wait()
		}
		if budget.used != 0 || len(budget.waiting) != 0 {
			t.Errorf("%d in use, %d waiting", budget.used, len(budget.waiting))
		}
	})
}

// A large answer isn't overtaken forever by small ones, and one whose time is up makes room for those behind it.
func TestTheBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(100, 100)
		first, large, small := reservation{caller: new(Caller)}, reservation{caller: new(Caller)},
			reservation{caller: new(Caller)}
		_ = budget.raise(t.Context(), &first, 60)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &failure.TimeoutError{Limit: time.Second})
		defer cancel()
		ofLarge, ofSmall := make(chan error, 1), make(chan error, 1)
		go func() { ofLarge <- budget.raise(ctx, &large, 80) }()
		synctest.Wait()
		go func() { ofSmall <- budget.raise(t.Context(), &small, 10) }()
		synctest.Wait()
		budget.mu.Lock()
		used := budget.used
		budget.mu.Unlock()
		if used != 60 {
			t.Error("a small answer overtook a large one")
		}
		var late *failure.TimeoutError
		if err := <-ofLarge; !errors.As(err, &late) { // the bubble's time passes while all wait
			t.Errorf("got %v, want the large one's deadline", err)
		}
		if err := <-ofSmall; err != nil || small.held != 10 || large.held != 0 {
			t.Errorf("got %v, %d and %d bytes", err, small.held, large.held)
		}
	})
}

// An answer that waits for its turn ends with its attempt.
func TestACallThatWaitsForTheBudgetKeepsItsDeadline(t *testing.T) {
	budget := NewBudget(1<<20, 1<<20)
	caller, request := asked(t, Options{Budget: budget}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("e", 2*FirstBytes))
	})
	request.Poll, caller.Deadlines.Poll = true, 50*time.Millisecond // polls are not repeated
	others := reservation{caller: new(Caller)}
	_ = budget.raise(t.Context(), &others, 1<<20)
	var late *failure.TimeoutError
	if _, err := caller.Do(t.Context(), request); !errors.As(err, &late) || late.Limit != caller.Deadlines.Poll {
		t.Errorf("got %v, want the attempt's deadline", err)
	}
	budget.free(&others)
	caller.Deadlines.Poll = PollTimeout
	if _, err := caller.Do(t.Context(), request); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// Servers that have used up the budget, or announce a megabyte and send nothing, delay nobody's ordinary answer.
func TestAnOrdinaryAnswerWaitsForNobody(t *testing.T) {
	budget := NewBudget(1<<20, 1<<20)
	everything := reservation{caller: new(Caller)}
	_ = budget.raise(t.Context(), &everything, 1<<20)
	var announced sync.WaitGroup
	announced.Add(32)
	waiting, stalled := asked(t, Options{Budget: budget}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(maxBodyBytes))
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		announced.Done()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() { _, _ = waiting.Do(ctx, stalled) })
	}
	defer group.Wait()
	defer cancel()
	announced.Wait()
	caller, request := asked(t, Options{Budget: budget}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("e", 6<<10))
	})
	if _, err := caller.Do(t.Context(), request); err != nil {
		t.Error(err)
	}
	budget.mu.Lock()
	defer budget.mu.Unlock()
	if budget.used != everything.held || len(budget.waiting) > 0 {
		t.Errorf("%d bytes are used, %d calls wait, though no large answer has come", budget.used, len(budget.waiting))
	}
}
