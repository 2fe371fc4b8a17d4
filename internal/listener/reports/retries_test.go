package reports_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/queue"
	"github.com/harrier-ci/harrier/internal/listener/reports"
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
		names := numbered("runner", 6) // as many as may be in flight
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
		names := numbered("runner", queue.MaxUnacked*queue.MaxEntries)
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
		r.Deliver(t.Context(), reportsAbout("succeeded", numbered("runner", 600)...))()
		// Some fifteen attempts each, six in parallel.
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

// An outage does not use up the minute, whichever report is the first to get through.
func TestAnOutageCostsAReportNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.OnJob = func(runner string) error {
			away := time.Since(begun)
			if away < 2*time.Minute || (runner == "late" && away < 2*time.Minute+20*time.Second) {
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

// A failing report has its full minute again after another was merged into it.
func TestANewReportHasTimeOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newTestReporter(), time.Now()
		r.cluster.OnJob = func(runner string) error {
			if runner == "poison" {
				return errBroken
			}
			return nil
		}
		start := r.Deliver(t.Context(), reportsAbout("", "poison"))
		<-time.After(time.Second)
		r.Deliver(t.Context(), reportsAbout("", "well"))() // the server takes others, so the minute runs
		<-time.After(49 * time.Second)
		end := r.Deliver(t.Context(), reportsAbout("failed", "poison"))
		<-time.After(10 * time.Second) // its next attempt has been made
		r.Deliver(t.Context(), reportsAbout("", "well"))()
		start()
		end()
		if took := time.Since(begun); took < 110*time.Second || took > 125*time.Second {
			t.Errorf("given up after %s, want a minute after the newer report was tried", took)
		}
		if diff := cmp.Diff([]string{"Timeout"}, r.reasons); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
	})
}

// The memory that reports take ends with them: of a runner whose report is written or given up nothing is kept.
func TestReportsThatAreDoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reporterOf(forgetful{})
		var kept []weak.Pointer[metav1.Time]
		for _, runner := range numbered("runner", 20) {
			end := report(runner, "failed", 1)
			end.Status.FinishedAt = new(metav1.Now())
			kept = append(kept, weak.Make(end.Status.FinishedAt))
			start := r.Deliver(t.Context(), reportsAbout("", runner))
			if !r.Deliver(t.Context(), []reports.Report{end})() || !start() {
				t.Error("a delivery said it was given up")
			}
		}
		synctest.Wait()
		runtime.GC()
		for i, finished := range kept[:19] { // of the last one this function may have a copy
			if finished.Value() != nil {
				t.Errorf("the report about runner-%d is still remembered", i)
			}
		}
		if len(r.reasons) != 10 {
			t.Errorf("dropped %v, want every second one", r.reasons)
		}
		runtime.KeepAlive(r)
	})
}

// forgetful accepts starts, and the end of every second runner; the others don't exist any more by then. It keeps
// nothing of what it is told.
type forgetful struct{ cluster.Cluster }

func (forgetful) ReportJob(_ context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	if status.JobResult != "" && runner[len(runner)-1]%2 == 0 {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "ephemeralrunners"}, runner)
	}
	return nil
}
