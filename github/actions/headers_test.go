package actions

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRateLimitOf(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		want   *RateLimit
	}{
		"none":      {http.Header{}, nil},
		"no number": {http.Header{"X-Ratelimit-Remaining": {"many"}}, nil},
		"whole": {http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1700000000"}, "X-Ratelimit-Resource": {"actions_runner_registration"}},
			&RateLimit{Resource: "actions_runner_registration", Reset: time.Unix(1700000000, 0)}},
		// Anybody's server may be asked, and the name becomes the label of a metric.
		"unknown":    {http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {"of-my-own"}}, &RateLimit{Resource: "other", Remaining: 5}},
		"not UTF-8":  {http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {"\xff"}}, &RateLimit{Resource: "other", Remaining: 5}},
		"old server": {http.Header{"X-Ratelimit-Remaining": {"4999"}}, &RateLimit{Resource: "core", Remaining: 4999}},
	} {
		if diff := cmp.Diff(test.want, rateLimitOf(test.header)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTokenExpiryOf(t *testing.T) {
	for text, want := range map[string]time.Time{
		"":                          {},
		"next week":                 {},
		"2026-12-01 10:00:00 UTC":   time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC),
		"2026-12-01 12:00:00 +0200": time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC),
	} {
		header := http.Header{"Github-Authentication-Token-Expiration": {text}}
		if got := tokenExpiryOf(header); !got.Equal(want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A server may answer with any number of three digits, and each one would be a series of several metrics.
func TestStatusOfARequestIsFromAClosedSet(t *testing.T) {
	for code, want := range map[int]string{0: "none", 200: "200", 429: "429", 299: "other", 999: "other"} {
		if got := (RequestInfo{StatusCode: code}).Status(); got != want {
			t.Errorf("%d: got %s, want %s", code, got, want)
		}
	}
}
