package exchange

import (
	"testing"
	"time"

	"github.com/harrier-ci/harrier/github/actions/configurl"
)

// The deadlines are promises of the client's documentation.
func TestDeadlines(t *testing.T) {
	caller := New(&configurl.URL{}, Options{})
	if want := (Deadlines{Call: 30 * time.Second, Attempt: 15 * time.Second, Poll: 75 * time.Second}); caller.Deadlines != want {
		t.Errorf("got %+v, want %+v", caller.Deadlines, want)
	}
	var pauses time.Duration
	for i := range maxRetries {
		pauses += firstPause << i
	}
	if pauses*12/10 >= CallTimeout {
		t.Errorf("%s of pauses leave no time for attempts within %s", pauses, CallTimeout)
	}
}
