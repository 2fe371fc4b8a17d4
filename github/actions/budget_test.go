package actions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
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

// A server that sends 15 MiB, or never stops, costs 1 MiB for a moment. The error is that of a truncated answer, with
// the size.
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
			_, err := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r"})
			var network *actions.NetworkError
			if !errors.As(err, &network) || !errors.Is(err, actions.ErrTruncated) || !strings.Contains(err.Error(), test.says) {
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
	if _, err := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{
		Name: "r",
	}); !errors.Is(err, actions.ErrRunnerExists) {
		t.Errorf("got %v, want ErrRunnerExists", err)
	}
}

// An answer's header isn't part of the budget, so it has a limit of its own.
func TestALargeHeaderIsRefused(t *testing.T) {
	s := newServer(t)
	s.on(jitCall, reply{header: map[string]string{"X-Large": strings.Repeat("x", 256<<10)}, body: "{}"})
	var network *actions.NetworkError
	_, err := s.client().GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r"})
	if !errors.As(err, &network) {
		t.Errorf("got %.200v, want a *NetworkError", err)
	}
}

// room returns a function that fails unless a budget of so many bytes is free: an answer of that size can be read.
func (s *server) room(budget *actions.Budget, size int) func() error {
	const start = `{"id":1}`
	s.on("GET "+runnersURL+"/1", reply{
		body:   start + strings.Repeat(" ", size-len(start)),
		header: map[string]string{"Content-Length": fmt.Sprint(size)},
	})
	client := s.connected(func(o *actions.Options) { o.Budget = budget })
	return func() error {
		ctx, cancel := context.WithTimeout(s.t.Context(), busyTimeout)
		defer cancel()
		_, err := client.GetRunner(ctx, 1)
		return err
	}
}

// Every call gives back what it has used, whether it succeeds or not: all methods are called, also those that are yet
// to come.
func TestNothingIsKeptOfTheBudget(t *testing.T) {
	padding := strings.Repeat(" ", 2*actions.FirstBytes) // the first bytes of an answer don't count
	for _, answer := range []reply{
		{body: `{"id":7}` + padding},
		{
			body: `{"count":1,"value":[{"id":7,"name":"me"}],"token":"t","url":"http://127.0.0.1","runner":{"id":7},` +
				`"encodedJITConfig":"e"}` + padding,
		},
		{body: `{"runners":[{"name":"me","status":"offline"}]}` + padding},
		{body: page(100).body + padding},
		{body: message(t, 5) + padding},
		{body: "[" + padding},
		{body: "<html>" + padding},
		{body: strings.Repeat(" ", 2<<20)},
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
		const size = 128 << 10
		budget := actions.NewBudget(size, size)
		room := newServer(t).room(budget, size)
		client := s.client(func(o *actions.Options) { o.Budget = budget })
		s.on(createSessionCall, reply{body: s.sessionBody(testQueueToken, nil)})
		session, err := client.CreateSession(t.Context(), 7, "me")
		if err != nil {
			t.Fatal(err)
		}
		s.on(everyCall, answer)
		for _, caller := range []reflect.Value{reflect.ValueOf(client), reflect.ValueOf(session)} {
			for method, of := range caller.Methods() {
				of.Call(plainArguments(t, of.Type()))
				if err := room(); err != nil {
					t.Fatalf("%s keeps some of the answer %d %.40q: %v", method.Name, answer.status, answer.body, err)
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
