package dryrun_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harrier-ci/harrier/operations/dryrun"
)

// Work that isn't done when its time is over says so.
func TestWorkEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		began := time.Now()
		_, err := dryrun.InTime(t.Context(), func() (int, error) {
			<-end
			return 0, nil
		})
		if took := time.Since(began); !errors.Is(err, dryrun.ErrTooLong) || took != time.Minute {
			t.Errorf("ends after %v with %v", took, err)
		}
		close(end)
	})
}
