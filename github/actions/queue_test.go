package actions_test

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions"
)

const (
	acquireCall = "POST " + scaleSetsURL + "/7/acquirejobs"
	jitCall     = "POST " + scaleSetsURL + "/7/generatejitconfig"
)

// message is the text of a message with entries.
func message(t *testing.T, id int64, entries ...map[string]any) string {
	t.Helper()
	return jsonText(t, map[string]any{
		"messageId": id, "messageType": "RunnerScaleSetJobMessages", "statistics": map[string]any{"totalAssignedJobs": 2},
		"body": jsonText(t, entries),
	})
}

// The queue URL has a query, to which lastMessageId is added if it is above 0.
func TestQueueURLKeepsItsQuery(t *testing.T) {
	for id, want := range map[int64]string{
		0:         "b=%2F&a=1;x",
		-1:        "b=%2F&a=1;x",
		100000007: "b=%2F&a=1;x&lastMessageId=100000007",
	} {
		s := newServer(t)
		s.on(createSessionCall, reply{body: s.sessionBody("q", map[string]any{"messageQueueUrl": s.URL +
			"/queue?b=%2F&a=1;x"})})
		session, err := s.client().CreateSession(t.Context(), 7, "me")
		if err != nil {
			t.Fatal(err)
		}
		s.on(pollCall, reply{status: 202})
		s.on("DELETE /queue/100000007", reply{status: 204})
		if _, err := session.GetMessage(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		if err := session.DeleteMessage(t.Context(), 100000007); err != nil {
			t.Fatal(err)
		}
		if got := s.only(pollCall).rawQuery; got != want {
			t.Errorf("poll after %d: query %q, want %q", id, got, want)
		}
		if got, want := s.only("DELETE /queue/100000007").rawQuery, "b=%2F&a=1;x"; got != want {
			t.Errorf("delete: query %q, want %q", got, want)
		}
	}
}

func TestQueueURLWithoutQuery(t *testing.T) {
	s := newServer(t)
	s.on(createSessionCall, reply{body: s.sessionBody("q", map[string]any{"messageQueueUrl": s.URL + "/queue"})})
	session, err := s.client().CreateSession(t.Context(), 7, "me")
	if err != nil {
		t.Fatal(err)
	}
	s.on(pollCall, reply{status: 202})
	if _, err := session.GetMessage(t.Context(), 3, 1); err != nil {
		t.Fatal(err)
	}
	if got, want := s.only(pollCall).rawQuery, "lastMessageId=3"; got != want {
		t.Errorf("query %q, want %q", got, want)
	}
}

// The capacity header is the total that the caller gives, up to 2147483647 and never negative.
func TestCapacityHeader(t *testing.T) {
	for capacity, want := range map[int]string{0: "0", 10: "10", math.MaxInt32: "2147483647", -5: "0"} {
		s := newServer(t)
		session := s.session()
		s.on(pollCall, reply{status: 202})
		if _, err := session.GetMessage(t.Context(), 0, capacity); err != nil {
			t.Fatal(err)
		}
		poll := s.only(pollCall)
		if got := poll.header.Get("X-ScaleSetMaxCapacity"); got != want {
			t.Errorf("capacity %d: header %q, want %q", capacity, got, want)
		}
		if got, want := poll.header.Get("Accept"), "application/json; api-version=6.0-preview"; got != want {
			t.Errorf("Accept %q, want %q", got, want)
		}
		if got, want := poll.header.Get("Authorization"), "Bearer "+testQueueToken; got != want {
			t.Errorf("Authorization %q, want %q", got, want)
		}
		if poll.header.Get("Content-Type") != "" || poll.query.Has("api-version") {
			t.Errorf(
				"Content-Type %q, query %q; want none, no api-version",
				poll.header.Get("Content-Type"), poll.rawQuery,
			)
		}
	}
}

// 202 is neither a message nor an error.
func TestNoMessage(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{status: 202})
	got, err := session.GetMessage(t.Context(), 0, 1)
	if got != nil || err != nil {
		t.Errorf("got %v, %v; want nil, nil", got, err)
	}
	if session.Statistics().TotalAssignedJobs != 3 {
		t.Error("the session's statistics are gone")
	}
}

// IDs are 64 bits; an undeleted message comes again when asked for.
func TestMessageIDs(t *testing.T) {
	s := newServer(t)
	session := s.session()
	const id = math.MaxInt64
	s.on(pollCall, reply{body: message(t, id)})
	s.on("DELETE /queue/9223372036854775807", reply{status: 204})
	for range 2 {
		got, err := session.GetMessage(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != id {
			t.Errorf("got id %d, want %d", got.ID, int64(id))
		}
	}
	if err := session.DeleteMessage(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	deletion := s.only("DELETE /queue/9223372036854775807")
	if got, want := deletion.header.Get("Content-Type"), "application/json"; got != want {
		t.Errorf("Content-Type %q, want %q", got, want)
	}
}

// A queue token with a lifetime shorter than a poll expires during each poll. That costs no session.
func TestQueueTokenThatEndsWhileAPollIsHeld(t *testing.T) {
	s := newServer(t)
	session := s.session()
	endsUnderWay := reply{do: func(w http.ResponseWriter, _ *http.Request) {
		s.clock.Step(10 * time.Second)
		w.WriteHeader(http.StatusUnauthorized)
	}}
	s.on(refreshSessionCall, reply{body: s.sessionBody("next-token", nil)})
	s.on(pollCall, endsUnderWay, endsUnderWay)
	if got, err := session.GetMessage(t.Context(), 0, 1); err != nil || got != nil {
		t.Errorf("got %v, %v; want no message", got, err)
	}
	s.on(pollCall, reply{status: http.StatusUnauthorized}, reply{body: message(t, 5)})
	if got, err := session.GetMessage(t.Context(), 0, 1); err != nil || got == nil || got.ID != 5 {
		t.Errorf("got %v, %v; want message 5", got, err)
	}
	s.on(pollCall, reply{status: http.StatusUnauthorized})
	if _, err := session.GetMessage(t.Context(), 0, 1); !errors.Is(err, actions.ErrUnauthorized) {
		t.Errorf("got %v, want ErrUnauthorized: the renewed token was refused at once", err)
	}
}

// A refusal that takes as long as a held poll counts as "no message" only so often. Each success resets the count.
func TestRefusalsThatComeLate(t *testing.T) {
	late := reply{status: http.StatusUnauthorized}
	for name, test := range map[string]struct {
		between reply // answers the third poll
		failed  []int // the polls, from 1, that end in ErrUnauthorized
	}{
		"refused too":          {late, []int{3, 4, 5, 6}},
		"no message":           {reply{status: http.StatusAccepted}, []int{6}},
		"a message":            {reply{body: message(t, 5)}, []int{6}},
		"a malformed message":  {reply{body: "{}"}, []int{6}},
		"not GitHub's answer":  {reply{body: "<html>log in</html>"}, []int{4, 5, 6}},
		"an error of GitHub's": {reply{status: http.StatusBadGateway}, []int{4, 5, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			session := s.session()
			s.on(refreshSessionCall, reply{body: s.sessionBody("next-token", nil)})
			polled := func(answers ...reply) (refused bool) {
				for i := range answers {
					answers[i] = s.after(1200*time.Millisecond, answers[i])
				}
				s.on(pollCall, answers...)
				_, err := session.GetMessage(t.Context(), 0, 1)
				return errors.Is(err, actions.ErrUnauthorized)
			}
			var failed []int
			for poll := 1; poll <= 6; poll++ {
				answer := late
				if poll == 3 {
					answer = test.between
				}
				if polled(late, answer) {
					failed = append(failed, poll)
				}
			}
			if diff := cmp.Diff(test.failed, failed); diff != "" {
				t.Errorf("refused polls (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing keeps callers from polling one session concurrently.
func TestConcurrentRefusalsThatComeLate(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(refreshSessionCall, reply{body: s.sessionBody("next-token", nil)})
	s.on(pollCall, s.after(1200*time.Millisecond, reply{status: http.StatusUnauthorized}))
	var silent atomic.Int32
	var polls sync.WaitGroup
	for range 20 {
		polls.Go(func() {
			if _, err := session.GetMessage(t.Context(), 0, 1); err == nil {
				silent.Add(1)
			}
		})
	}
	polls.Wait()
	if got := silent.Load(); got != 2 {
		t.Errorf("%d of 20 refusals pass for no message, want 2: the third in a row is an error", got)
	}
}

func TestDeletingAMessage(t *testing.T) {
	for name, test := range map[string]struct {
		replies []reply
		want    error
	}{
		"deleted":       {[]reply{{status: 204}}, nil},
		"gone":          {[]reply{{status: 404}}, nil},
		"answer lost":   {[]reply{cutShort("x"), {status: 404}}, nil},
		"token refused": {[]reply{{status: 401}, {status: 204}}, nil},
		"session gone": {
			[]reply{{status: 400, body: exception("RunnerScaleSetSessionExpiredException", "x")}}, actions.ErrSessionNotFound,
		},
		"always refused": {[]reply{{status: 401}}, actions.ErrUnauthorized},
	} {
		s := newServer(t)
		session := s.session()
		s.on(refreshSessionCall, reply{body: s.sessionBody("second-token", nil)})
		s.on("DELETE /queue/5", test.replies...)
		if err := session.DeleteMessage(t.Context(), 5); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// The call acquirejobs goes to the service's address with api-version, but with the queue token.
func TestAcquireJobsUsesTheQueueToken(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(acquireCall, reply{body: `{"count":2,"value":[11,9007199254740993]}`})
	got, err := session.AcquireJobs(t.Context(), []int64{11, 12, 9007199254740993})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{11, 9007199254740993}, got); diff != "" {
		t.Errorf("acquired (-want +got):\n%s", diff)
	}
	call := s.only(acquireCall)
	if got, want := call.header.Get("Authorization"), "Bearer "+testQueueToken; got != want {
		t.Errorf("Authorization %q, want %q", got, want)
	}
	if call.rawQuery != "api-version=6.0-preview" || call.body != "[11,12,9007199254740993]\n" {
		t.Errorf("query %q, body %q", call.rawQuery, call.body)
	}
}

// A refused queue token is renewed through the session, with the admin token.
func TestAcquireJobsRenewsTheQueueToken(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(acquireCall, reply{status: 401}, reply{body: `{"count":1,"value":[11]}`})
	s.on(refreshSessionCall, reply{body: s.sessionBody("second-token", nil)})
	s.clock.Step(59*time.Minute + time.Second) // the admin token is due as well
	if _, err := session.AcquireJobs(t.Context(), []int64{11}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.calls(acquireCall)[1].header.Get("Authorization"), "Bearer second-token"; got != want {
		t.Errorf("repeated with %q, want %q", got, want)
	}
	if got := s.registrations(); got != 2 {
		t.Errorf("%d registrations, want 2: the service's address comes from the admin connection", got)
	}
}

// The answer is lost and the repetition acquires nothing: that is not an error.
func TestLostAnswerOfAcquireJobs(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(acquireCall, cutShort(`{"count":1,"value":[11]}`), reply{body: `{"count":0,"value":[]}`})
	got, err := session.AcquireJobs(t.Context(), []int64{11})
	if err != nil || len(got) != 0 {
		t.Errorf("got %v, %v; want none, nil", got, err)
	}
}

func TestAcquiringNothingAsksNobody(t *testing.T) {
	s := newServer(t)
	session := s.session()
	if got, err := session.AcquireJobs(t.Context(), nil); got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got := len(s.calls(acquireCall)); got != 0 {
		t.Errorf("%d calls, want none", got)
	}
}

func TestTruncatedPollIsReturned(t *testing.T) {
	text := message(t, 5)
	for name, answer := range map[string]reply{
		"connection lost":     cutShort(text),
		"text ends too early": {body: text[:len(text)/2]},
		"empty, unfinished":   {do: endWithConnection("")},
	} {
		s := newServer(t)
		session := s.session()
		s.on(pollCall, answer)
		_, err := session.GetMessage(t.Context(), 0, 1)
		if !errors.Is(err, actions.ErrTruncated) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %v, want ErrTruncated", name, err)
		}
		if got := len(s.calls(pollCall)); got != 1 {
			t.Errorf("%s: %d polls, want 1", name, got)
		}
	}
}

func TestFailedPollIsTyped(t *testing.T) {
	s := newServer(t)
	session := s.session()
	s.on(pollCall, reply{
		status: 429,
		header: map[string]string{"Retry-After": "3"},
	}, reply{status: 502, body: "bad gateway"},
		reply{do: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }})
	var limited *actions.RateLimitedError
	if _, err := session.GetMessage(t.Context(), 0, 1); !errors.As(err, &limited) ||
		!limited.Until.Equal(epoch.Add(3*time.Second)) {
		t.Errorf("got %v, want *RateLimitedError for 3 s", err)
	}
	var answer *actions.Error
	if _, err := session.GetMessage(t.Context(), 0, 1); !errors.As(err, &answer) || answer.StatusCode != 502 ||
		answer.Endpoint != actions.EndpointGetMessage {
		t.Errorf("got %v, want the 502", err)
	}
	var network *actions.NetworkError
	_, err := session.GetMessage(t.Context(), 0, 1)
	if !errors.As(err, &network) {
		t.Fatalf("got %v, want *NetworkError", err)
	}
	if strings.Contains(err.Error(), "id=s-1") {
		t.Errorf("the queue URL's query is in %q", err)
	}
	if len(s.clock.pauses) != 0 {
		t.Errorf("pauses %v, want none: polls are not repeated", s.clock.pauses)
	}
}
