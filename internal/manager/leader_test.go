package manager

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

func TestALeaderIsMissedForLessThan15SecondsAndThereAreNeverTwo(t *testing.T) {
	options := managerOptions(&rest.Config{}, defaults(), logr.Discard())
	lease, renew, retry := *options.LeaseDuration, *options.RenewDeadline, *options.RetryPeriod
	const jitter = 2.2 // client-go adds up to 1.2 of the period
	late := time.Duration(jitter * float64(retry))
	if missed := lease + 2*late; missed >= 15*time.Second {
		t.Errorf("a killed leader is replaced after up to %s", missed)
	}
	if left := lease - retry - renew; left < 2*time.Second {
		t.Errorf("a leader that can't renew has %s to end before another begins", left)
	}
}
