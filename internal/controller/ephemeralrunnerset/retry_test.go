package ephemeralrunnerset

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

func TestRetryAt(t *testing.T) {
	limited := func(wait time.Duration) error {
		return &actions.RateLimitedError{Until: start.Add(wait), Err: errNoAnswer}
	}
	for name, test := range map[string]struct {
		err      error
		failures int
		want     time.Duration
	}{
		"no answer":                        {err: errNoAnswer, want: retryQuestionAfter},
		"no answer three times":            {errNoAnswer, 3, 4 * retryQuestionAfter},
		"no answer for a long time":        {errNoAnswer, 100, longestQuestionPause},
		"to be left alone for an hour":     {err: limited(time.Hour), want: time.Hour},
		"to be left alone for a moment":    {err: limited(time.Second), want: retryQuestionAfter},
		"to be left alone, until long ago": {err: limited(-time.Hour), want: retryQuestionAfter},
	} {
		if got := retryQuestionAt(test.err, max(1, test.failures), start).Sub(start); got != test.want {
			t.Errorf("%s: asked again after %s, want %s", name, got, test.want)
		}
	}
}
