package exchange

import (
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
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
		"whole": {http.Header{
			"X-Ratelimit-Remaining": {"0"},
			"X-Ratelimit-Reset":     {"1700000000"},
			"X-Ratelimit-Resource":  {"actions_runner_registration"},
		},
			&RateLimit{Resource: "actions_runner_registration", Reset: time.Unix(1700000000, 0)}},
		// Anybody's server may be asked, and the name becomes the label of a metric.
		"unknown": {
			http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {"of-my-own"}},
			&RateLimit{Resource: "other", Remaining: 5},
		},
		"not UTF-8": {
			http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Resource": {"\xff"}},
			&RateLimit{Resource: "other", Remaining: 5},
		},
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

func TestUserAgentNamesTheClientsOwnScaleSet(t *testing.T) {
	if got := (UserAgent{ScaleSetID: 9}).header(7); !strings.Contains(got, `"scale_set_id":9,`) {
		t.Errorf("got %s, want scale set 9", got)
	}
}

func TestBuildInformation(t *testing.T) {
	for name, test := range map[string]struct {
		info            debug.BuildInfo
		version, commit string
	}{
		"dependency": {
			debug.BuildInfo{
				Main: debug.Module{Path: "example.com/x"},
				Deps: []*debug.Module{{Path: modulePath, Version: "v1.2.3"}},
			},
			"v1.2.3", "v1.2.3",
		},
		"own binary": {
			debug.BuildInfo{
				Main:     debug.Module{Path: modulePath, Version: "(devel)"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
			},
			"unknown", "abc",
		},
		"unrelated": {
			debug.BuildInfo{
				Main:     debug.Module{Path: "example.com/x"},
				Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
			},
			"unknown", "unknown",
		},
	} {
		if version, commit := buildOf(&test.info); version != test.version || commit != test.commit {
			t.Errorf("%s: got %s, %s; want %s, %s", name, version, commit, test.version, test.commit)
		}
	}
}

func TestWhereARedirectMayLead(t *testing.T) {
	for _, test := range []struct {
		from, to string
		same     bool
	}{
		{"https://ghes.example/a", "https://GHES.example:443/b", true},
		{"http://ghes.example/a", "https://ghes.example/a", true},
		{"http://ghes.example:8080/a", "https://ghes.example:8443/a", true},
		{"https://ghes.example/a", "http://ghes.example/a", false},
		{"https://ghes.example/a", "https://ghes.example:8443/a", false},
		{"http://ghes.example/a", "http://ghes.example:443/a", false},
		{"https://ghes.example/a", "https://ghes.example.evil/a", false},
		{"https://ghes.example/a", "https://api.ghes.example/a", false},
	} {
		from, _ := url.Parse(test.from)
		to, _ := url.Parse(test.to)
		if got := sameServer(from, to); got != test.same {
			t.Errorf("%s to %s: %t", test.from, test.to, got)
		}
	}
}
