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

// A report that failed leaves its place to others until its pause is over.
func TestAFailedReportPausesOutsideOfThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newRig(), time.Now()
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
		for i := range reportsAtOnce {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.deliver(t.Context(), reportsAbout("succeeded", append(names, "last")...))()
		if written != 0 {
			t.Errorf("the last report was written after %s, want at once", written)
		}
	})
}

// Many reports at a server that answers a part of them too late: none is given up because it waited for its turn.
func TestWaitingForItsTurnCostsAReportNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, attempts := newRig(), 0
		r.cluster.onJob = func(string) error {
			r.mu.Lock()
			attempts++
			late := attempts%5 == 0
			r.mu.Unlock()
			if late {
				<-time.After(kubernetesLimit)
				return apierrors.NewTimeoutError("too late", 0)
			}
			<-time.After(20 * time.Millisecond)
			return nil
		}
		var names []string
		for i := range messagesUnderWay * entriesPerMessage {
			names = append(names, fmt.Sprint("runner-", i))
		}
		r.deliver(t.Context(), reportsAbout("succeeded", names...))()
		if len(r.reasons) != 0 {
			t.Errorf("%d of %d reports were given up", len(r.reasons), len(names))
		}
	})
}

// An API server that comes back forbids everything for a moment, also what waited for it longer than that.
func TestForbiddenAfterAnOutageIsNoReasonToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newRig(), time.Now()
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

// An outage costs a report none of its minute, whoever is the first to get through.
func TestAnOutageCostsAReportNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := newRig(), time.Now()
		r.cluster.onJob = func(runner string) error {
			away := time.Since(begun)
			if away < 2*reportLimit || runner == "late" && away < 2*reportLimit+20*time.Second {
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

// Small messages whose reports are slow don't keep an offer waiting as long as there are places for them.
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
			t.Errorf("the offer is not acquired; %d messages are under way", len(s.polls.underReport))
		}
	})
}

// What is under way at once bounds the requests; a limit of the client's own would be a second one, lower than it.
func TestTheClientHasNoLimitOfItsOwn(t *testing.T) {
	cluster, _ := onServer(t, http.StatusOK, `{}`)
	if limiter := cluster.(*kubernetes).client.GetRateLimiter(); limiter != nil {
		t.Errorf("limited to %v requests a second", limiter.QPS())
	}
}
