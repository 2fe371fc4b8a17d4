package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stream answers with so many bytes of a JIT config, in chunks.
func stream(bytes int) reply {
	return reply{do: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"runner":{"id":5,"name":"r"},"encodedJITConfig":"`)
		chunk := []byte(strings.Repeat("x", 32<<10))
		for sent := 0; sent < bytes; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"}`)
	}}
}

// A server that sends 15 MiB, or never stops, costs 1 MiB for a moment. The error is that of a truncated answer, with the size.
func TestALargeAnswerFailsLikeATruncatedOne(t *testing.T) {
	const large, endless = 15 << 20, 1 << 40
	for name, test := range map[string]struct {
		answer reply
		says   string
	}{
		"of unknown size": {stream(large), "more than 1048576 bytes are not read"},
		"endless":         {stream(endless), "more than 1048576 bytes are not read"},
		"of known size": {
			reply{header: map[string]string{"Content-Length": fmt.Sprint(large)}, body: strings.Repeat("x", large)},
			"it has 15728640 bytes, and more than 1048576 are not read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(jitCall, test.answer)
			_, err := s.client().GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"})
			var network *NetworkError
			if !errors.As(err, &network) || !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want a *NetworkError for a truncated answer that says %q", err, test.says)
			}
			if got := len(s.calls(jitCall)); got != 1 {
				t.Errorf("%d attempts, want 1", got)
			}
		})
	}
}

// Of a failure the status matters, however long its page is.
func TestALongFailureKeepsItsStatus(t *testing.T) {
	s := newServer(t)
	s.on(jitCall, reply{status: 409, body: strings.Repeat("x", 5<<20)})
	if _, err := s.client().GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"}); !errors.Is(err, ErrRunnerExists) {
		t.Errorf("got %v, want ErrRunnerExists", err)
	}
}

// An answer's header isn't part of the budget, so it has a limit of its own.
func TestALargeHeaderIsRefused(t *testing.T) {
	s := newServer(t)
	s.on(jitCall, reply{header: map[string]string{"X-Large": strings.Repeat("x", 2*maxHeaderBytes)}, body: "{}"})
	client := s.client(func(o *Options) { o.Clock = nil })
	client.deadlines.call = time.Second
	var network *NetworkError
	if _, err := client.GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"}); !errors.As(err, &network) {
		t.Errorf("got %.200v, want a *NetworkError", err)
	}
}

// 128 calls at a time to a server that sends too much stay within the budget, all fail, and nothing of it is kept.
func TestManyLargeAnswersStayWithinTheBudget(t *testing.T) {
	const calls, total, share = 128, 24 << 20, 12 << 20 // as a manager has them
	s := newServer(t)
	s.on(jitCall, stream(15<<20))
	budget := NewBudget(total, share)
	client := s.connected(func(o *Options) { o.Budget = budget })
	client.deadlines.call, client.deadlines.attempt = 4*patience, 4*patience // this is about memory, on machines that may be busy
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
			if _, err := client.GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"}); !errors.Is(err, ErrTruncated) {
				t.Errorf("got %v, want ErrTruncated", err)
			}
		})
	}
	group.Wait()
	close(done)
	<-watched
	// The server's buffers are part of the process, and the collector may be late on a busy machine, where 162 MiB were seen. 128 × 15 MiB
	// would be 1,920 MiB.
	if most.Load() > 320<<20 {
		t.Errorf("the heap had %d MiB", most.Load()>>20)
	}
	if budget.used != 0 || len(budget.byClient) != 0 || len(budget.waiting) != 0 {
		t.Errorf("%d bytes are still in use, by %d clients, %d waiting", budget.used, len(budget.byClient), len(budget.waiting))
	}
}

// One client can't take what is left for others, however much it asks for.
func TestOneClientGetsItsShareOfTheBudgetOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(100, 50)
		greedy, other := new(Client), new(Client)
		held := make([]reservation, 10)
		for i := range held {
			held[i].client = greedy
			go func() { _ = budget.raise(t.Context(), &held[i], 25) }()
		}
		synctest.Wait()
		if budget.used != 50 || len(budget.waiting) != 8 {
			t.Errorf("the greedy client got %d, and %d of its calls wait", budget.used, len(budget.waiting))
		}
		modest := reservation{client: other}
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
		first, large, small := reservation{client: new(Client)}, reservation{client: new(Client)}, reservation{client: new(Client)}
		_ = budget.raise(t.Context(), &first, 60)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &TimeoutError{After: time.Second})
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
		var late *TimeoutError
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
	s := newServer(t)
	s.on(jitCall, reply{body: `{"runner":{"id":5,"name":"r"},"encodedJITConfig":"` + strings.Repeat("e", FirstBytes) + `"}`})
	budget := NewBudget(1<<20, 1<<20)
	client := s.connected(func(o *Options) { o.Budget = budget })
	client.deadlines.attempt = 50 * time.Millisecond
	others := reservation{client: new(Client)}
	_ = budget.raise(t.Context(), &others, 1<<20)
	var late *TimeoutError
	if _, err := client.GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"}); !errors.As(err, &late) || late.After != client.deadlines.attempt {
		t.Errorf("got %v, want the attempt's deadline", err)
	}
	budget.free(&others)
	if _, err := client.GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"}); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// Servers that have used up the budget, or announce a megabyte and send nothing, delay nobody's ordinary answer.
func TestAnOrdinaryAnswerWaitsForNobody(t *testing.T) {
	budget := NewBudget(1<<20, 1<<20)
	everything := reservation{client: new(Client)}
	_ = budget.raise(t.Context(), &everything, 1<<20)
	stalled := newServer(t)
	var announced sync.WaitGroup
	announced.Add(32)
	stalled.on(jitCall, reply{do: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(maxBodyBytes))
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		announced.Done()
		<-r.Context().Done()
	}})
	waiting := stalled.connected(func(o *Options) { o.Budget = budget })
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() { _, _ = waiting.GenerateJITConfig(ctx, 7, JITConfigRequest{Name: "r"}) })
	}
	defer group.Wait()
	defer cancel()
	announced.Wait()
	s := newServer(t)
	s.on(jitCall, reply{body: `{"runner":{"id":5,"name":"r"},"encodedJITConfig":"` + strings.Repeat("e", 6<<10) + `"}`})
	client := s.connected(func(o *Options) { o.Budget = budget })
	if _, err := client.GenerateJITConfig(t.Context(), 7, JITConfigRequest{Name: "r"}); err != nil {
		t.Error(err)
	}
	budget.mu.Lock()
	defer budget.mu.Unlock()
	if budget.used != everything.held || len(budget.waiting) > 0 {
		t.Errorf("%d bytes are used, %d calls wait, though no large answer has come", budget.used, len(budget.waiting))
	}
}

// Every call gives back what it has used, whether it succeeds or not: all methods are called, also those that are yet to come.
func TestNothingIsKeptOfTheBudget(t *testing.T) {
	padding := strings.Repeat(" ", 2*FirstBytes) // the first bytes of an answer don't count
	for _, answer := range []reply{
		{body: `{"id":7}` + padding},
		{body: `{"count":1,"value":[{"id":7,"name":"me"}],"token":"t","url":"http://127.0.0.1","runner":{"id":7},"encodedJITConfig":"e"}` + padding},
		{body: `{"runners":[{"name":"me","status":"offline"}]}` + padding},
		{body: page(100).body + padding},
		{body: message(t, 5) + padding},
		{body: "[" + padding},
		{body: "<html>" + padding},
		{body: strings.Repeat(" ", 2*maxBodyBytes)},
		{status: 202, body: padding},
		{status: 204},
		{status: 401, body: "{}" + padding},
		{status: 403, body: exception("AccessDeniedException", "no") + padding},
		{status: 404, body: "{}" + padding},
		{status: 409, body: padding},
		{status: 429, body: padding, header: map[string]string{"Retry-After": "1"}},
		{status: 500, body: padding},
		cutShort("{" + padding),
		{status: 307, body: padding, header: map[string]string{"Location": "/elsewhere"}},
		{status: 302, body: padding, header: map[string]string{"Location": "https://elsewhere.example"}},
	} {
		s := newServer(t)
		budget := NewBudget(2<<20, 2<<20)
		client := s.client(func(o *Options) { o.Budget = budget })
		s.on(createSessionCall, reply{body: s.sessionBody(testQueueToken, nil)})
		session, err := client.CreateSession(t.Context(), 7, "me")
		if err != nil {
			t.Fatal(err)
		}
		s.on(everyCall, answer)
		for _, caller := range []reflect.Value{reflect.ValueOf(client), reflect.ValueOf(session)} {
			for method, of := range caller.Methods() {
				of.Call(plainArguments(t, of.Type()))
				if budget.used != 0 || len(budget.byClient) != 0 || len(budget.waiting) != 0 {
					t.Errorf("%s keeps %d bytes of the answer %d %.40q", method.Name, budget.used, answer.status, answer.body)
				}
			}
		}
	}
}

// plainArguments are arguments with which a method makes its call.
func plainArguments(t *testing.T, method reflect.Type) []reflect.Value {
	t.Helper()
	var all []reflect.Value
	for parameter := range method.Ins() {
		argument := reflect.Zero(parameter)
		switch parameter.Kind() {
		case reflect.Interface:
			argument = reflect.ValueOf(t.Context())
		case reflect.Int:
			argument = reflect.ValueOf(7)
		case reflect.String:
			argument = reflect.ValueOf("me")
		case reflect.Pointer:
			argument = reflect.New(parameter.Elem())
		case reflect.Slice:
			argument = reflect.ValueOf([]int64{1})
		}
		all = append(all, argument)
	}
	return all
}
