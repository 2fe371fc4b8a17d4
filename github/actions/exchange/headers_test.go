package exchange_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/github/actions/exchange"
)

// reported returns the info that is reported of a call whose answer has that header.
func reported(t *testing.T, header http.Header) (info exchange.RequestInfo) {
	t.Helper()
	options := exchange.Options{OnRequest: func(of exchange.RequestInfo) { info = of }}
	caller, request := asked(t, options, func(w http.ResponseWriter, _ *http.Request) { maps.Copy(w.Header(), header) })
	if _, err := caller.Do(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return info
}

func TestRateLimits(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		want   *exchange.RateLimit
	}{
		"none":      {http.Header{}, nil},
		"no number": {http.Header{"X-Ratelimit-Remaining": {"many"}}, nil},
		"whole": {http.Header{
			"X-Ratelimit-Remaining": {"0"},
			"X-Ratelimit-Reset":     {"1700000000"},
			"X-Ratelimit-Resource":  {"actions_runner_registration"},
		}, &exchange.RateLimit{Resource: "actions_runner_registration", Reset: time.Unix(1700000000, 0)}},
		// Anybody's server may be asked, and the name becomes the label of a metric.
		"unknown": {
			http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {"of-my-own"}},
			&exchange.RateLimit{Resource: "other", Remaining: 5},
		},
		"not UTF-8": {
			http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {"\xff"}},
			&exchange.RateLimit{Resource: "other", Remaining: 5},
		},
		"old server": {
			http.Header{"X-Ratelimit-Remaining": {"4999"}}, &exchange.RateLimit{Resource: "core", Remaining: 4999},
		},
	} {
		if diff := cmp.Diff(test.want, reported(t, test.header).RateLimit); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestExpiryOfTokens(t *testing.T) {
	for text, want := range map[string]time.Time{
		"":                          {},
		"next week":                 {},
		"2026-12-01 10:00:00 UTC":   time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC),
		"2026-12-01 12:00:00 +0200": time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC),
	} {
		header := http.Header{"Github-Authentication-Token-Expiration": {text}}
		if got := reported(t, header).TokenExpires; !got.Equal(want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A server may answer with any number of three digits, and each one would be a series of several metrics.
func TestStatusOfARequestIsFromAClosedSet(t *testing.T) {
	for code, want := range map[int]string{0: "none", 200: "200", 429: "429", 299: "other", 999: "other"} {
		if got := (exchange.RequestInfo{StatusCode: code}).Status(); got != want {
			t.Errorf("%d: got %s, want %s", code, got, want)
		}
	}
}

func TestUserAgentNamesTheClientsOwnScaleSet(t *testing.T) {
	var got string
	options := exchange.Options{UserAgent: exchange.UserAgent{ScaleSetID: 9}}
	caller, request := asked(t, options, func(_ http.ResponseWriter, r *http.Request) { got = r.UserAgent() })
	request.ScaleSetID = 7
	if _, err := caller.Do(t.Context(), request); err != nil || !strings.Contains(got, `"scale_set_id":9,`) {
		t.Errorf("got %s and %v, want scale set 9", got, err)
	}
}
