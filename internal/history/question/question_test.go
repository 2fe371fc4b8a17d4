package question_test

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/history/question"
)

func TestDurationsMayBeDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "48h": 48 * time.Hour, "1d12h": 0,
		"-3d": 0, "d": 0} {
		if got, err := question.ParseDuration(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
}
