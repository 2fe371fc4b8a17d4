package listener

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A report that failed does not count against the limit until its pause is over.
func TestAFailedReportPausesOutsideOfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		var written time.Duration
		r.cluster.onJob = func(runner string) error {
			if runner == "last" {
				written = time.Since(begun)
				return nil
			}
			if time.Since(begun) == 0 {
				return errBroken
			}
			return nil
		}
		var names []string
		for i := range maxReportWrites {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.deliver(t.Context(), reportsAbout("succeeded", append(names, "last")...))()
		if written != 0 {
			t.Errorf("the last report was written after %s, want at once", written)
		}
	})
}

// A server answers some of many reports too late: none is given up because it waited in the queue.
func TestWaitingInTheQueueCostsAReportNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, attempts := newTestReporter(), 0
		r.cluster.onJob = func(string) error {
			r.mu.Lock()
			attempts++
			late := attempts%5 == 0
			r.mu.Unlock()
			if late {
				<-time.After(kubernetesTimeout)
				return apierrors.NewTimeoutError("too late", 0)
			}
			<-time.After(20 * time.Millisecond)
			return nil
		}
		var names []string
		for i := range maxUnackedMessages * maxMessageEntries {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.deliver(t.Context(), reportsAbout("succeeded", names...))()
		if len(r.reasons) != 0 {
			t.Errorf("%d of %d reports were given up", len(r.reasons), len(names))
		}
	})
}

// An API server accepts the set's patches now and then, but no report: the reports are given up, although each waits long in the
// queue between its attempts and the server accepts nothing during an attempt.
func TestWaitingInTheQueueKeepsNoReportForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.onJob = func(string) error {
			<-time.After(time.Second)
			return errBroken
		}
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			for {
				select {
				case <-time.After(2 * refreshAfter):
					r.answered()
				case <-ended:
					return
				}
			}
		}()
		var names []string
		for i := range 600 {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.deliver(t.Context(), reportsAbout("succeeded", names...))()
		// Some fifteen attempts each, maxReportWrites at once.
		if took := time.Since(begun); took > 45*time.Minute {
			t.Errorf("the last report was given up after %s", took)
		}
	})
}

// An API server that comes back forbids everything for a moment, including reports that have waited for longer than that.
func TestForbiddenAfterAnOutageIsNoReasonToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.onJob = func(string) error {
			switch away := time.Since(begun); {
			case away < time.Minute:
				return errBroken
			case away < time.Minute+5*time.Second:
				return apierrors.NewForbidden(schema.GroupResource{Resource: runners}, "a", errBroken)
			default:
				return nil
			}
		}
		r.deliver(t.Context(), reportsAbout("succeeded", "a"))()
		if len(r.reasons) != 0 {
			t.Errorf("the report was given up: %v", r.reasons)
		}
	})
}

// An outage does not use up reportTimeout, whichever report is the first to get through.
func TestAnOutageCostsAReportNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.onJob = func(runner string) error {
			away := time.Since(begun)
			if away < 2*reportTimeout || runner == "late" && away < 2*reportTimeout+20*time.Second {
				return apierrors.NewServerTimeout(schema.GroupResource{Resource: runners}, "patch", 1)
			}
			return nil
		}
		r.deliver(t.Context(), reportsAbout("succeeded", "early", "late"))()
		if len(r.reasons) != 0 {
			t.Errorf("a report was given up: %v", r.reasons)
		}
	})
}

// Small messages whose reports are slow don't keep an offer waiting while fewer than maxUnackedMessages wait.
func TestOffersDoNotWaitBehindStarts(t *testing.T) {
	inBubble(t, func(s *scenario) {
		s.cluster.onJob = func(string) error { <-time.After(time.Second); return nil }
		s.start()
		for second := range 60 {
			for i := range 5 {
				id := int64(5*second + i + 1)
				s.send(message(id, 1, fmt.Sprintf("start %d a%d", 2*id, id), fmt.Sprintf("start %d b%d", 2*id+1, id)))
				s.pass(200 * time.Millisecond)
			}
		}
		s.send(message(1000, 1, "offer 5000"))
		s.pass(time.Second)
		if s.github.noted("acquire [5000]") != 1 {
			t.Errorf("the offer is not acquired; %d messages are under way", len(s.polls.unacked))
		}
	})
}

// maxReportWrites bounds the requests; a rate limit of the client's own would be a second bound, and a lower one.
func TestTheClientHasNoLimitOfItsOwn(t *testing.T) {
	cluster, _ := onServer(t, http.StatusOK, `{}`)
	if limiter := cluster.(*kubernetes).client.GetRateLimiter(); limiter != nil {
		t.Errorf("limited to %v requests a second", limiter.QPS())
	}
}
