package failure

import (
	"net/http"
	"testing"
	"time"
)

func TestLimitedUntil(t *testing.T) {
	epoch := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := epoch.Add(24 * time.Hour)
	for name, test := range map[string]struct {
		status  int
		header  http.Header
		until   time.Time
		limited bool
	}{
		"no header":               {429, http.Header{}, time.Time{}, false},
		"other status":            {500, http.Header{"Retry-After": {"5"}}, time.Time{}, false},
		"zero":                    {429, http.Header{"Retry-After": {"0"}}, epoch, true},
		"negative":                {429, http.Header{"Retry-After": {"-1"}}, time.Time{}, false},
		"nonsense":                {429, http.Header{"Retry-After": {"later"}}, time.Time{}, false},
		"seconds beyond a day":    {429, http.Header{"Retry-After": {"9223372036854775807"}}, day, true},
		"date beyond a day":       {503, http.Header{"Retry-After": {"Fri, 01 Jan 2100 00:00:00 GMT"}}, day, true},
		"reset beyond a day":      {403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"99999999999"}}, day, true},
		"requests remain":         {403, http.Header{"X-Ratelimit-Remaining": {"1"}, "X-Ratelimit-Reset": {"99999999999"}}, time.Time{}, false},
		"reset is nonsense":       {403, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"x"}}, time.Time{}, false},
		"503 has no quota to use": {503, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"99999999999"}}, time.Time{}, false},
	} {
		until, limited := LimitedUntil(test.status, test.header, epoch)
		if limited != test.limited || limited && !until.Equal(test.until) {
			t.Errorf("%s: got %s, %v; want %s, %v", name, until, limited, test.until, test.limited)
		}
	}
}
