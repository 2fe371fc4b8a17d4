package page

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestPlacesAreSharedByPeers: a peer has as many as it may and no more, loopback leaves room for others, and where all
// are taken whoever has few gets one of whoever has many.
func TestPlacesAreSharedByPeers(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	p := &places{clock: clock}
	var leave func()
	take := func(peer string, times int) (got []*place) {
		for range times {
			if place, left := p.take(peer); place != nil {
				got, leave = append(got, place), left
			}
		}
		return got
	}
	if got := len(take("127.0.0.1", 40)); got != maxOfLoopback {
		t.Errorf("loopback has %d places", got)
	}
	many := take("10.0.0.1", 40)
	if len(many) != maxOfPeer {
		t.Errorf("a peer has %d places", len(many))
	}
	if take("10.0.0.2", 1) != nil {
		t.Error("a place was taken away before its turn was over")
	}
	clock.Step(turn)
	if got := len(take("10.0.0.2", 40)); got != maxOfPeer {
		t.Errorf("of loopback's places another peer gets %d", got)
	}
	if got := len(take("::1", 1)); got != 1 {
		t.Error("the other loopback gets none")
	}
	if len(p.all) != maxLive {
		t.Errorf("%d places are taken", len(p.all))
	}
	select {
	case <-many[0].taken:
		t.Error("who has fewest loses a place")
	default:
	}
	take("10.0.0.1", 1)
	select {
	case <-many[0].taken:
	default:
		t.Error("a peer with all its places doesn't lose its oldest for a new one")
	}
	leave()
	if len(p.all) != maxLive-1 {
		t.Error("a place that was left is still taken")
	}
}
