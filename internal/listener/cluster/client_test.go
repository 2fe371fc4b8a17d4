package cluster

import (
	"testing"

	"k8s.io/client-go/rest"
)

// maxWrites bounds the requests; a rate limit of the client's own would be a second bound, and a lower one.
func TestTheClientHasNoLimitOfItsOwn(t *testing.T) {
	made, err := New(&rest.Config{Host: "http://127.0.0.1"}, "runners", "set")
	if err != nil {
		t.Fatal(err)
	}
	if limiter := made.(*kubernetes).client.GetRateLimiter(); limiter != nil {
		t.Errorf("limited to %v requests a second", limiter.QPS())
	}
}
