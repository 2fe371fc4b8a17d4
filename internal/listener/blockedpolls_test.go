package listener

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/queue"
)

// block begins to listen, and lets as many messages wait as there may be: each attempt to report fails after a while.
func (s *scenario) block(reports int, after time.Duration) {
	s.log = logr.Discard() // it would be thousands of lines
	s.file.MaxRunners = 100
	s.start()
	s.cluster.OnJob = func(string) error {
		<-time.After(after)
		return apierrors.NewInternalError(errBroken)
	}
	for id := range int64(queue.MaxUnacked) {
		var entries []string
		for i := range reports {
			entries = append(entries, fmt.Sprintf("complete %d r%d-%d", id, id, i))
		}
		s.send(message(id+1, 0, entries...))
		s.pass(queue.GatherInterval)
	}
	s.pass(15 * time.Second)
}

// The runners' status can't be patched, but the set can: it follows demand although no poll goes out.
func TestDemandIsFollowedWhileReportsKeepPollsWaiting(t *testing.T) {
	for name, test := range map[string]struct {
		reports int
		after   time.Duration
	}{
		"at once":    {1, 10 * time.Millisecond},
		"after 1 s":  {1, time.Second},
		"after 3 s":  {1, 3 * time.Second},
		"hanging":    {1, cluster.RequestTimeout},
		"in burst":   {queue.MaxEntries, time.Second},
		"all of 50s": {queue.MaxEntries, cluster.RequestTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.block(test.reports, test.after)
				polls := len(s.github.pollTimes())
				s.send(message(1000, 7, "assign 9001"))
				s.pass(11 * time.Second) // the statistics are read every 10 s
				if got := s.cluster.Last().Replicas; got != 7 {
					t.Errorf(
						"replicas = %d, want the 7 of the statistics; %d polls went out meanwhile",
						got, len(s.github.pollTimes())-polls,
					)
				}
			})
		})
	}
}

// A report that keeps failing while the API server accepts the set's patches is given up, and then polls go on.
func TestReportsThatFailForLongLetPollsGoOn(t *testing.T) {
	for _, after := range []time.Duration{
		10 * time.Millisecond, 3 * time.Second, 5 * time.Second, cluster.RequestTimeout,
	} {
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, func(s *scenario) {
				s.block(1, after)
				s.send(message(1000, 7, "assign 9001"))
				s.pass(10 * time.Minute)
				if got := s.github.noted("delete 1000"); got != 1 {
					t.Errorf(
						"%d messages still wait, the last poll was after %d",
						len(s.github.waiting()), s.github.lastPollAt().lastID,
					)
				}
			})
		})
	}
}
