package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/harrier-ci/harrier/github/actions/exchange"
	"github.com/harrier-ci/harrier/github/actions/failure"
)

// 128 calls at a time to a server that sends too much stay within the budget, all fail, and nothing of it is kept.
func TestManyLargeAnswersStayWithinTheBudget(t *testing.T) {
	const calls, total, share = 128, 24 << 20, 12 << 20 // as a manager has them
	budget := exchange.NewBudget(total, share)
	caller, request := asked(t, exchange.Options{Budget: budget}, func(w http.ResponseWriter, _ *http.Request) {
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
	for range 2 { // both halves at once
		defer hold(t, budget).Free()
	}
}

// hold makes a call that has all that one caller may have of a budget until its answer is freed: the server doesn't say
// how much comes, so that it may be as much.
func hold(t *testing.T, budget *exchange.Budget) *exchange.Response {
	t.Helper()
	caller, poll := asked(t, exchange.Options{Budget: budget}, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, strings.Repeat("e", 2*exchange.FirstBytes))
	})
	poll.Poll = true
	answer, err := caller.Do(t.Context(), poll)
	if err != nil {
		t.Fatalf("the budget isn't free: %v", err)
	}
	return answer
}

// However many callers an owner has, they leave others their share.
func TestTheShareOfTheBudgetIsTheOwners(t *testing.T) {
	budget := exchange.NewBudget(2<<20, 1<<20)
	answer := func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, strings.Repeat("e", 2*exchange.FirstBytes))
	}
	get := func(owner string, limit time.Duration) (*exchange.Response, error) {
		caller, poll := asked(t, exchange.Options{Budget: budget, Owner: owner}, answer)
		poll.Poll, caller.Deadlines.Poll = true, limit
		return caller.Do(t.Context(), poll)
	}
	first, err := get("b", exchange.PollTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Free()
	if second, err := get("b", 50*time.Millisecond); err == nil {
		second.Free()
		t.Error("b's second server has the other half, too")
	}
	other, err := get("a", exchange.PollTimeout)
	if err != nil {
		t.Fatalf("a has no share: %v", err)
	}
	other.Free()
}

// Callers are replaced when their credentials change: a budget doesn't keep those that were.
func TestTheBudgetForgetsCallers(t *testing.T) {
	budget := exchange.NewBudget(2<<20, 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("e", 2*exchange.FirstBytes))
	}))
	defer server.Close()
	var callers []weak.Pointer[exchange.Caller]
	for range 10 {
		caller, request := callerOf(t, exchange.Options{Budget: budget}, server.URL)
		answer, err := caller.Do(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Free()
		caller.CloseIdleConnections()
		callers = append(callers, weak.Make(caller))
	}
	runtime.GC()
	kept := 0
	for _, caller := range callers {
		if caller.Value() != nil {
			kept++
		}
	}
	if kept > 1 { // this function may have a copy of the last one
		t.Errorf("%d of %d callers are still remembered", kept, len(callers))
	}
	runtime.KeepAlive(budget)
}

// An answer that waits for its turn ends with its attempt.
func TestACallThatWaitsForTheBudgetKeepsItsDeadline(t *testing.T) {
	budget := exchange.NewBudget(1<<20, 1<<20)
	caller, request := asked(t, exchange.Options{Budget: budget}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("e", 2*exchange.FirstBytes))
	})
	request.Poll, caller.Deadlines.Poll = true, 50*time.Millisecond // polls are not repeated
	others := hold(t, budget)
	var late *failure.TimeoutError
	if _, err := caller.Do(t.Context(), request); !errors.As(err, &late) || late.Limit != caller.Deadlines.Poll {
		t.Errorf("got %v, want the attempt's deadline", err)
	}
	others.Free()
	caller.Deadlines.Poll = exchange.PollTimeout
	if _, err := caller.Do(t.Context(), request); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// Servers that have used up the budget, or announce a megabyte and send nothing, delay nobody's ordinary answer.
func TestAnOrdinaryAnswerWaitsForNobody(t *testing.T) {
	budget := exchange.NewBudget(1<<20, 1<<20)
	everything := hold(t, budget)
	var announced sync.WaitGroup
	announced.Add(32)
	waiting, stalled := asked(t, exchange.Options{Budget: budget}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(1<<20))
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
	caller, request := asked(t, exchange.Options{Budget: budget}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("e", 6<<10))
	})
	if _, err := caller.Do(t.Context(), request); err != nil {
		t.Error(err)
	}
	everything.Free()
	hold(t, budget).Free() // calls whose large answers have not come hold nothing of it, and wait for nothing
}
