package actions_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/github/actions/exchange"
)

// connected returns a client that has an admin token, so that pauses and requests are the next call's own.
func (s *server) connected(options ...func(*actions.Options)) *actions.Client {
	s.t.Helper()
	s.on("GET "+runnersURL+"/0", reply{body: `{"id":1}`})
	client := s.client(options...)
	if _, err := client.GetRunner(s.t.Context(), 0); err != nil {
		s.t.Fatal(err)
	}
	return client
}

// Network errors, 429, and 5xx except 501 are repeated, also for a POST, and nothing else is.
func TestWhatIsRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		reply    reply
		attempts int
	}{
		"400": {reply{status: 400}, 1}, "403": {reply{status: 403}, 1}, "404": {reply{status: 404}, 1},
		"409": {reply{status: 409}, 1},
		"429": {reply{status: 429}, 5}, "500": {reply{status: 500}, 5}, "501": {reply{status: 501}, 1},
		"502": {reply{status: 502}, 5},
		"503": {reply{status: 503}, 5}, "599": {reply{status: 599}, 5},
		"cut JSON, failure": {reply{status: 400, body: `{"message":"wh`}, 1},
		"cut JSON":          {reply{body: `{"runner":{"id":1},"encodedJITConfig":"x`}, 5},
		"cut short":         {cutShort(`{"runner":{"id":1},"encodedJITConfig":"x"}`), 5},
		"connection closed": {reply{do: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			call := jitCall
			s.on(call, test.reply)
			client := s.connected()
			if _, err := client.GenerateJITConfig(t.Context(), 7, actions.JITConfigRequest{Name: "r-1"}); err == nil {
				t.Fatal("no error")
			}
			attempts := s.calls(call)
			if len(attempts) != test.attempts {
				t.Errorf("%d attempts, want %d", len(attempts), test.attempts)
			}
			for i, attempt := range attempts {
				if got, want := attempt.body, `{"name":"r-1","workFolder":""}`+"\n"; got != want {
					t.Errorf("attempt %d: body %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

func TestPausesDoubleAndAreSpread(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{status: 500})
	if _, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7); err == nil {
		t.Fatal("no error")
	}
	if len(s.clock.pauses) != 4 {
		t.Fatalf("pauses %v, want four", s.clock.pauses)
	}
	for i, pause := range s.clock.pauses {
		middle := time.Second << i
		if pause < middle*8/10 || pause > middle*12/10 {
			t.Errorf("pause %d is %s, want %s ± 20 %%", i+1, pause, middle)
		}
	}
}

func TestFailureThatHealsIsNoError(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{status: 502, body: "bad gateway"}, cutShort(`{"id":7`), reply{body: `{"id":7}`})
	set, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if set.ID != 7 {
		t.Errorf("got scale set %d, want 7", set.ID)
	}
}

// Status, body and request ids of the last attempt survive.
func TestLastAnswerSurvivesTheRetries(t *testing.T) {
	s := newServer(t)
	last := reply{
		status: 503, body: exception("CircuitBreakerException", "the last one"),
		header: map[string]string{"ActivityId": "activity-5", "X-GitHub-Request-Id": "request-5"},
	}
	s.on(
		getSetCall, reply{status: 500, body: "first"}, reply{status: 500}, reply{status: 500}, reply{status: 500}, last,
	)
	_, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7)
	var got *actions.Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want *Error", err)
	}
	want := actions.Error{
		Endpoint:   actions.EndpointGetScaleSet,
		StatusCode: 503,
		Message:    "the last one",
		ActivityID: "activity-5",
		RequestID:  "request-5",
		TypeName:   "GitHub.Some.WebApi.CircuitBreakerException, GitHub.Some.WebApi",
		Credential: actions.CredentialAdminToken,
	}
	if *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	for _, part := range []string{
		"get scale set", "503", "the last one", "activity-5", "request-5", "CircuitBreakerException",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// An answer survives a network error after it.
func TestAnswerBeforeANetworkErrorSurvives(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{status: 500, body: `{"message":"overloaded"}`}, cutShort("{"))
	_, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7)
	var network *actions.NetworkError
	var answer *actions.Error
	if !errors.As(err, &network) || !errors.Is(err, actions.ErrTruncated) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v, want *NetworkError for a truncated answer", err)
	}
	if network.Attempts != 5 || network.Method != "GET" || !strings.HasSuffix(network.URL, scaleSetsURL+"/7") {
		t.Errorf("got %+v", network)
	}
	if !errors.As(err, &answer) || answer.StatusCode != 500 || !strings.Contains(err.Error(), "overloaded") {
		t.Errorf("got %v, want the 500 in it", err)
	}
}

// A BOM is removed from successes and errors.
func TestByteOrderMarkIsDropped(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: "\xef\xbb\xbf" + `{"id":7}`},
		reply{
			status: 404,
			body: "\xef\xbb\xbf" + exception(
				"RunnerScaleSetNotFoundException", "No runner scale set found with identifier 7.",
			),
		})
	client := s.connected()
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Error(err)
	}
	if _, err := client.GetRunnerScaleSetByID(t.Context(), 7); !errors.Is(err, actions.ErrScaleSetNotFound) {
		t.Errorf("got %v, want ErrScaleSetNotFound", err)
	}
}

func TestPauseThatCannotEndInTimeIsNotBegun(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{status: 429, header: map[string]string{"Retry-After": "20"}})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // CallTimeout would allow the pause
	defer cancel()
	_, err := s.connected().GetRunnerScaleSetByID(ctx, 7)
	var limited *actions.RateLimitedError
	if !errors.As(err, &limited) {
		t.Errorf("got %v, want *RateLimitedError", err)
	}
	if len(s.clock.pauses) != 0 {
		t.Errorf("pauses %v, want none that lasts longer than the context", s.clock.pauses)
	}
}

// An attempt ends after 15 s, which leaves time for another one.
func TestHangingAttemptIsRepeated(t *testing.T) {
	t.Parallel() // it waits
	s := newServer(t)
	s.on(getSetCall, reply{do: hang}, reply{body: `{"id":7}`})
	if _, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Error(err)
	}
	if got := len(s.calls(getSetCall)); got != 2 {
		t.Errorf("%d attempts, want 2", got)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.on(getSetCall, reply{do: func(w http.ResponseWriter, r *http.Request) { cancel(); hang(w, r) }})
	_, err := s.connected().GetRunnerScaleSetByID(ctx, 7)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := len(s.calls(getSetCall)); got != 1 {
		t.Errorf("%d attempts, want 1", got)
	}
}

func TestEveryAttemptIsReported(t *testing.T) {
	s := newServer(t)
	var mu sync.Mutex
	var got []actions.RequestInfo
	client := s.connected(func(o *actions.Options) {
		o.OnRequest = func(info actions.RequestInfo) {
			mu.Lock()
			defer mu.Unlock()
			info.Err = nil
			got = append(got, info)
		}
	})
	s.on("DELETE "+runnersURL+"/9", reply{status: 500}, cutShort("{"), reply{status: 204})
	if err := client.RemoveRunner(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	want := []actions.RequestInfo{
		{Endpoint: actions.EndpointRegistrationToken, StatusCode: 201},
		{Endpoint: actions.EndpointRegister, StatusCode: 200},
		{Endpoint: actions.EndpointGetRunner, StatusCode: 200},
		{Endpoint: actions.EndpointRemoveRunner, StatusCode: 500},
		{Endpoint: actions.EndpointRemoveRunner, StatusCode: 0},
		{Endpoint: actions.EndpointRemoveRunner, StatusCode: 204},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// A message that is too large is deleted: the queue would never get past it.
func TestMessageTooLargeCanBeDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want int64
	}{
		"id first": {`{"messageId":9,"messageType":"RunnerScaleSetJobMessages","body":"`, 9},
		"id last":  {`{"messageType":"RunnerScaleSetJobMessages","body":"`, 0},
		"no JSON":  {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			session := s.session()
			s.on("GET /queue", reply{body: test.text + strings.Repeat(" ", 16<<20) + `","messageId":9}`})
			_, err := session.GetMessage(t.Context(), 0, 10)
			var malformed *actions.MalformedMessageError
			if errors.As(err, &malformed) != (test.want != 0) ||
				(malformed != nil && malformed.MessageID != test.want) {
				t.Errorf("got %.200v, want message %d to be malformed", err, test.want)
			}
			if _, tooLarge := errors.AsType[*exchange.TooLargeError](err); !tooLarge {
				t.Errorf("got %.200v, want *exchange.TooLargeError", err)
			}
		})
	}
}

func TestAnswerTooLargeIsRefused(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: strings.Repeat(" ", 1<<20+1)})
	_, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7)
	if _, tooLarge := errors.AsType[*exchange.TooLargeError](err); !tooLarge {
		t.Errorf("got %v, want *exchange.TooLargeError", err)
	}
	if got := len(s.calls(getSetCall)); got != 1 {
		t.Errorf("%d attempts, want 1", got)
	}
}
