package actions_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// Retry-After can be long.
func TestLongLimitReturnsAtOnce(t *testing.T) {
	inTwoMinutes := epoch.Add(2 * time.Minute)
	for name, test := range map[string]struct {
		status int
		header map[string]string
	}{
		"429, seconds":         {429, map[string]string{"Retry-After": "120"}},
		"429, date":            {429, map[string]string{"Retry-After": inTwoMinutes.Format(http.TimeFormat)}},
		"403, secondary limit": {403, map[string]string{"Retry-After": "120"}},
		"403, primary limit": {
			403,
			map[string]string{
				"X-RateLimit-Remaining": "0",
				"X-RateLimit-Reset":     strconv.FormatInt(inTwoMinutes.Unix(), 10),
			},
		},
		"429, primary limit": {
			429,
			map[string]string{
				"x-ratelimit-remaining": "0",
				"x-ratelimit-reset":     strconv.FormatInt(inTwoMinutes.Unix(), 10),
			},
		},
		"429, both: the waiter": {
			429, map[string]string{"Retry-After": "120", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			test.header["ActivityId"] = "activity"
			s.on(getSetCall, reply{status: test.status, body: `{"message":"slow down"}`, header: test.header})
			_, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7)
			var limited *actions.RateLimitedError
			if !errors.As(err, &limited) {
				t.Fatalf("got %v, want *RateLimitedError", err)
			}
			if !limited.Until.Equal(inTwoMinutes) || limited.Assumed || limited.Endpoint != actions.EndpointGetScaleSet {
				t.Errorf("%s until %s, want %s", limited.Endpoint, limited.Until, inTwoMinutes)
			}
			var answer *actions.Error
			if !errors.As(err, &answer) || answer.StatusCode != test.status || answer.ActivityID != "activity" {
				t.Errorf("the answer is lost: %v", err)
			}
			if errors.Is(err, actions.ErrUnauthorized) {
				t.Error("a limit passes for a refused credential")
			}
			if len(s.clock.pauses) != 0 || len(s.calls(getSetCall)) != 1 {
				t.Errorf("%d attempts, pauses %v; want one, none", len(s.calls(getSetCall)), s.clock.pauses)
			}
		})
	}
}

// A 503 and a gateway's answer are not GitHub's rate limit. The pause that they ask for is kept for a minute at most.
func TestUnavailabilityIsNoRateLimit(t *testing.T) {
	for name, test := range map[string]struct {
		answer reply
		pause  time.Duration
	}{
		"503": {
			reply{status: 503, header: map[string]string{"Retry-After": "40"}}, 40 * time.Second,
		},
		"503, date": {
			reply{
				status: 503,
				header: map[string]string{"Retry-After": epoch.Add(time.Minute).Format(http.TimeFormat)},
			},
			time.Minute,
		},
		"503, a day": {
			reply{status: 503, header: map[string]string{"Retry-After": "86400"}}, time.Minute,
		},
		"503, does not say":           {reply{status: 503}, 0},
		"429 as a page, does not say": {reply{status: 429, body: "<html>"}, 0},
		"429 as a page": {
			reply{status: 429, body: "<html>", header: map[string]string{"Retry-After": "86400"}}, time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(getSetCall, test.answer)
			_, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7)
			var limited *actions.RateLimitedError
			var answer *actions.Error
			if errors.As(err, &limited) || !errors.As(err, &answer) || answer.StatusCode != test.answer.status {
				t.Fatalf("got %v, want the answer and no *RateLimitedError", err)
			}
			now := s.clock.Now()
			if got := actions.RetryAt(err, now).Sub(now); got != test.pause {
				t.Errorf("to be repeated in %s, want %s", got, test.pause)
			}
		})
	}
}

// A short Retry-After is waited for, and a little longer, because others were told the same.
func TestShortLimitIsWaitedFor(t *testing.T) {
	for _, status := range []int{429, 503, 403} {
		s := newServer(t)
		s.on(getSetCall, reply{status: status, header: map[string]string{"Retry-After": "7"}}, reply{body: `{"id":7}`})
		if _, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if len(s.clock.pauses) != 1 || s.clock.pauses[0] < 7*time.Second || s.clock.pauses[0] > 8400*time.Millisecond {
			t.Errorf("%d: pauses %v, want 7 to 8.4 s", status, s.clock.pauses)
		}
	}
}

func TestLimitWithoutATimeLastsAMinute(t *testing.T) {
	for name, answer := range map[string]reply{
		"429": {status: 429},
		"403 by its text": {
			status: 403,
			body:   `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}`,
		},
		"403 by its link": {
			status: 403,
			body:   `{"message":"no","documentation_url":"https://docs.github.com/rest/using-the-rest-api#secondary-rate-limits"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.on(getSetCall, answer)
			_, err := s.connected().GetRunnerScaleSetByID(t.Context(), 7)
			var limited *actions.RateLimitedError
			if !errors.As(err, &limited) || errors.Is(err, actions.ErrUnauthorized) {
				t.Fatalf("got %v, want *RateLimitedError and no refused credential", err)
			}
			if want := s.clock.Now().Add(time.Minute); !limited.Until.Equal(want) {
				t.Errorf("until %s, want %s", limited.Until, want)
			}
			if !limited.Assumed || strings.Contains(err.Error(), "until 2026") {
				t.Errorf("assumed: %t in %q, want it said that GitHub named no time", limited.Assumed, err)
			}
		})
	}
}
