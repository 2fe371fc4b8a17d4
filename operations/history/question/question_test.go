package question_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/question"
)

func TestDurationsMayBeDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "48h": 48 * time.Hour, "1d12h": 0,
		"-3d": 0, "d": 0} {
		if got, err := question.ParseDuration(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
}

func TestDaysAgoAreWholeDays(t *testing.T) {
	now := time.Date(2026, 3, 4, 1, 30, 0, 0, time.FixedZone("", 2*60*60)) // the 3rd in UTC
	for text, want := range map[string]string{"7d": "2026-02-24T00:00:00Z", "1d": "2026-03-02T00:00:00Z",
		"24h": "2026-03-02T23:30:00Z", "168h": "2026-02-24T23:30:00Z", "2026-02-25T12:34:56Z": "2026-02-25T12:34:56Z"} {
		q, err := question.Parse(url.Values{"from": {text}}, now, question.Time)
		if got := q.Filter.From.UTC().Format(time.RFC3339); err != nil || got != want {
			t.Errorf("from %s is %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestNoParameterIsLong(t *testing.T) {
	long := strings.Repeat("ä", 600) // 1,200 bytes
	for _, query := range []url.Values{{"set": {long}}, {"after": {long}}, {"from": {long}}, {"runID": {long}},
		{long: {""}},
		{"set": {long[:1000], long[:1000]}}} {
		_, err := question.Parse(query, time.Now(), question.Time, question.Place, question.Pages, question.OfJobs)
		var wrong *ledger.FilterError
		if !errors.As(err, &wrong) || len(wrong.Error()) > 300 {
			t.Errorf("%.40v is answered by %v", query, err)
		}
	}
}
