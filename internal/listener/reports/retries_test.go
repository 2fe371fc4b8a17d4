package reports

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/queue"
)

// A report that failed does not count against the limit until its pause is over.
func TestAFailedReportPausesOutsideOfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		var written time.Duration
		r.cluster.OnJob = func(runner string) error {
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
		for i := range maxWrites {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.Deliver(t.Context(), reportsAbout("succeeded", append(names, "last")...))()
		if written != 0 {
			t.Errorf("the last report was written after %s, want at once", written)
		}
	})
}

// A server answers some of many reports too late: none is given up because it waited in the queue.
func TestWaitingInTheQueueCostsAReportNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, attempts := newTestReporter(), 0
		r.cluster.OnJob = func(string) error {
			r.mu.Lock()
			attempts++
			late := attempts%5 == 0
			r.mu.Unlock()
			if late {
				<-time.After(cluster.RequestTimeout)
				return apierrors.NewTimeoutError("too late", 0)
			}
			<-time.After(20 * time.Millisecond)
			return nil
		}
		var names []string
		for i := range queue.MaxUnacked * queue.MaxEntries {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.Deliver(t.Context(), reportsAbout("succeeded", names...))()
		if len(r.reasons) != 0 {
			t.Errorf("%d of %d reports were given up", len(r.reasons), len(names))
		}
	})
}

// An API server accepts the set's patches now and then, but no report: the reports are given up, although each waits
// long in the queue between its attempts and the server accepts nothing during an attempt.
func TestWaitingInTheQueueKeepsNoReportForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.OnJob = func(string) error {
			<-time.After(time.Second)
			return errBroken
		}
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			for {
				select {
				case <-time.After(2 * (10 * time.Second)):
					r.Answered()
				case <-ended:
					return
				}
			}
		}()
		var names []string
		for i := range 600 {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.Deliver(t.Context(), reportsAbout("succeeded", names...))()
		// Some fifteen attempts each, maxWrites in parallel.
		if took := time.Since(begun); took > 45*time.Minute {
			t.Errorf("the last report was given up after %s", took)
		}
	})
}

// An API server that comes back forbids everything for a moment, including reports that have waited for longer than
// that.
func TestForbiddenAfterAnOutageIsNoReasonToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.OnJob = func(string) error {
			switch away := time.Since(begun); {
			case away < time.Minute:
				return errBroken
			case away < time.Minute+5*time.Second:
				return apierrors.NewForbidden(schema.GroupResource{Resource: "ephemeralrunners"}, "a", errBroken)
			default:
				return nil
			}
		}
		r.Deliver(t.Context(), reportsAbout("succeeded", "a"))()
		if len(r.reasons) != 0 {
			t.Errorf("the report was given up: %v", r.reasons)
		}
	})
}

// An outage does not use up timeout, whichever report is the first to get through.
func TestAnOutageCostsAReportNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.OnJob = func(runner string) error {
			away := time.Since(begun)
			if away < 2*timeout || (runner == "late" && away < 2*timeout+20*time.Second) {
				return apierrors.NewServerTimeout(schema.GroupResource{Resource: "ephemeralrunners"}, "patch", 1)
			}
			return nil
		}
		r.Deliver(t.Context(), reportsAbout("succeeded", "early", "late"))()
		if len(r.reasons) != 0 {
			t.Errorf("a report was given up: %v", r.reasons)
		}
	})
}
