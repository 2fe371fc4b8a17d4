package requeue

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{-1: 0, 0: 0, 1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1 << 30: 10 * time.Second} {
		if got := Backoff(time.Second, 10*time.Second, failures); got != want {
			t.Errorf("Backoff() after %d failures = %s, want %s", failures, got, want)
		}
	}
}
