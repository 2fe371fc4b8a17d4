package period_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/operations/history/ledger/period"
)

// Parts follow on each other from the hour in which a time begins to that in which it ends, and each consists of whole
// periods.
func TestPartsCoverATime(t *testing.T) {
	for _, spans := range [][]int64{period.Spans, period.Spans[:2]} {
		for minutes := range 5000 {
			from := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).Add(time.Duration(minutes*7) * time.Minute)
			to := from.Add(time.Duration(minutes*minutes%129_600+1) * time.Minute)
			next := from.Truncate(time.Hour).Unix()
			for _, part := range period.Cover(from, to, spans) {
				if part.From != next || part.To <= part.From || part.From%part.Span != 0 || part.To%part.Span != 0 {
					t.Fatalf("from %s to %s: part %+v, want one of whole periods from %d on", from, to, part, next)
				}
				next = part.To
			}
			if want := to.Add(time.Hour - time.Nanosecond).Truncate(time.Hour).Unix(); next != want {
				t.Fatalf("from %s to %s: parts end at %d, want %d", from, to, next, want)
			}
		}
	}
}

func TestWithoutEndsPartsCoverAllTime(t *testing.T) {
	parts := period.Cover(time.Time{}, time.Time{}, period.Spans)
	if last := parts[len(parts)-1]; parts[0].From != 0 || last.To > period.Latest || period.Latest-last.To >= period.Hour {
		t.Fatalf("parts are %+v", parts)
	}
}

func TestATimeThatIsOverBeforeItBeginsHasNoParts(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	if parts := period.Cover(noon, noon.Add(-time.Hour), period.Spans); len(parts) > 0 {
		t.Fatalf("parts are %+v, want none", parts)
	}
}
