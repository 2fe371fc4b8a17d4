package service

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/github/actions/failure"
)

// Times on a server's clock are converted to ours: neither a clock that differs nor one that is changed makes a pause,
// or a token's lifetime, longer or shorter.
func TestTimesOfTheServerAreReckonedByOurClock(t *testing.T) {
	now := time.Now()
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		sent := now.Add(ahead).UTC().Truncate(time.Second)
		date := map[string][]string{"Date": {sent.Format(http.TimeFormat)}}
		inTwoMinutes := sent.Add(2 * time.Minute)
		for name, header := range map[string]http.Header{
			"date": {"Retry-After": {inTwoMinutes.Format(http.TimeFormat)}},
			"reset": {
				"X-Ratelimit-Remaining": {"0"},
				"X-Ratelimit-Reset":     {strconv.FormatInt(inTwoMinutes.Unix(), 10)},
			},
		} {
			maps.Copy(header, date)
			until, limited := failure.LimitedUntil(http.StatusTooManyRequests, header, now)
			// With ==, so that the monotonic clock, which nobody sets, is compared as well.
			if want := now.Add(2 * time.Minute); !limited || until != want {
				t.Errorf("server %s ahead, %s: got %s, %t; want %s", ahead, name, until, limited, want)
			}
		}
		token := adminToken(t, jwt.MapClaims{"exp": inTwoMinutes.Unix()})
		if got, want := expiry(token, date, now), now.Add(2*time.Minute); got != want {
			t.Errorf("server %s ahead: the token ends at %s, want %s", ahead, got, want)
		}
	}
}

// Many processes that got their tokens together don't renew them together, and none renews one immediately or in the
// last minute.
func TestRenewalsAreSpread(t *testing.T) {
	now := time.Now()
	for _, test := range []struct{ life, least, most time.Duration }{
		{time.Hour, 53 * time.Minute, 59 * time.Minute},
		{5 * time.Minute, 3*time.Minute + 30*time.Second, 4 * time.Minute},
		{time.Minute, 30 * time.Second, 30 * time.Second},
		{0, 0, 0},
		{-time.Minute, -time.Minute, -time.Minute},
	} {
		moments := map[time.Time]bool{}
		for range 200 {
			got := lifetimeOf(now, now.Add(test.life)).renewAt
			if got.Before(now.Add(test.least)) || got.After(now.Add(test.most)) {
				t.Errorf(
					"a token that lives for %s is renewed after %s, want %s to %s",
					test.life, got.Sub(now), test.least, test.most,
				)
			}
			moments[got] = true
		}
		if test.least < test.most && len(moments) < 190 {
			t.Errorf("200 tokens that live for %s are renewed at %d moments", test.life, len(moments))
		}
	}
}

// A value fetched after the caller got its own counts as the renewal that the caller wants.
func TestReplaceTakesAValueThatIsNewerThanTheCallers(t *testing.T) {
	var fetches atomic.Int32
	first := new(int)
	values := &Shared[int]{Limit: time.Minute, Fetch: func(context.Context, *int) (*int, error) {
		fetches.Add(1)
		return new(int), nil
	}}
	values.Set(first)
	second, err := values.Replace(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := values.Replace(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if again != second || fetches.Load() != 1 {
		t.Errorf("%d fetches, same value %v; want 1, true", fetches.Load(), again == second)
	}
}

// A token without a readable expiry is used for a while; no token makes the client panic or wait forever.
func FuzzTokenExpiry(f *testing.F) {
	epoch := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Add("")
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3NjcyMjU2MDB9.c2ln")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjFlMzAwfQ.c2ln")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOi0xfQ.c2ln")
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOiJ4In0.c2ln")
	f.Add("eyJhbGciOiJub25lIn0.eyJleHAiOm51bGx9.")
	f.Fuzz(func(t *testing.T, token string) {
		if ends := expiry(token, nil, epoch); ends.IsZero() || ends.Sub(epoch) > 24*time.Hour {
			t.Errorf("%q ends at %s", token, ends)
		}
	})
}

// adminToken signs a token as the service would; the client can't check the signature.
func adminToken(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("service's key"))
	if err != nil {
		t.Fatal(err)
	}
	return token
}
