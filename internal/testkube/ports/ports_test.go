package ports_test

import (
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube/ports"
)

func take(t *testing.T, n int) []int {
	t.Helper()
	taken, err := ports.Take(n)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// Programs that were told where to listen may not listen yet.
func TestAPortDoesNotComeAgainSoon(t *testing.T) {
	const many = 300 // more than a block has
	taken := take(t, many)
	slices.Sort(taken)
	if different := len(slices.Compact(taken)); different != many {
		t.Errorf("%d different ports, want %d", different, many)
	}
}

func TestNoPortIsGivenOutOnWhichSomebodyListens(t *testing.T) {
	inTurn := take(t, 1)[0] + 1
	if listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(inTurn))); err == nil {
		t.Cleanup(func() { _ = listener.Close() })
	}
	if slices.Contains(take(t, 10), inTurn) {
		t.Errorf("port %d was handed out although somebody listens on it", inTurn)
	}
}
