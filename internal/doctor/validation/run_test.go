package validation

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A check that isn't done when its time is over says so.
func TestValidateEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		began := time.Now()
		_, err := validateInTime(t.Context(), func() (*validated, error) {
			<-end
			return nil, nil
		})
		if took := time.Since(began); !errors.Is(err, errTooLong) || took != timeout {
			t.Errorf("ends after %v with %v", took, err)
		}
		close(end)
	})
}
