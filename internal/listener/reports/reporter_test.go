package reports_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
	"github.com/harrier-ci/harrier/internal/listener/queue"
)

func TestReportsOfOneRunnerKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestReporter()
		attempts := 0
		r.cluster.OnJob = func(runner string) error {
			if runner == "slow" {
				if attempts++; attempts < 4 {
					return errBroken
				}
			}
			return nil
		}
		first := r.Deliver(t.Context(), reportsAbout("", "slow", "quick"))
		second := r.Deliver(t.Context(), reportsAbout("succeeded", "slow", "quick"))
		synctest.Wait()
		if got := r.cluster.Job("quick").JobResult; got != "succeeded" {
			t.Errorf("while one runner's report is repeated the other's last report = %q", got)
		}
		if !first() || !second() {
			t.Error("a delivery said it was given up")
		}
		if got := r.cluster.Job("slow").JobResult; got != "succeeded" {
			t.Errorf("last report of the slow runner = %q", got)
		}
	})
}

// More ends than starts are written in parallel, because the manager decides by ends, unless more are needed to write
// all starts within a second of their message. There are more of both if many messages wait, from a quarter to half of
// the 50 that may, or the process is about to end.
func TestReportsAreParallelWithinABound(t *testing.T) {
	const quick = 10 * time.Millisecond
	for name, test := range map[string]struct {
		result         string
		messages, most int
		drain          bool
		each           time.Duration
	}{
		"ends":                    {"succeeded", 12, 6, false, quick},
		"ends in many messages":   {"succeeded", 25, 16, false, quick},
		"starts":                  {"", 4, 2, false, quick},
		"starts in many messages": {"", 25, 16, false, quick},
		"starts before the end":   {"", 1, 16, true, quick},
		"starts that take long":   {"", 1, 16, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestReporter()
				inFlight := &crowd{}
				r.cluster.OnJob = func(string) error { return inFlight.stay(test.each) }
				begun := time.Now()
				var waits []func() bool
				for message := range test.messages {
					names := numbered(fmt.Sprint("runner-", message), queue.MaxEntries)
					waits = append(waits, r.Deliver(t.Context(), reportsAbout(test.result, names...)))
				}
				if test.drain {
					r.Drain(t.Context())
				}
				for _, wait := range waits {
					wait()
				}
				if inFlight.most != test.most {
					t.Errorf("%d reports at once, want %d", inFlight.most, test.most)
				}
				all := test.messages * queue.MaxEntries
				if took, want := time.Since(begun), time.Duration(all/2+1)*test.each; took > want {
					t.Errorf("%d reports of %s took %s, want %s at most", all, test.each, took, want)
				}
			})
		})
	}
}

// crowd counts the calls of stay that are under way at the same time.
type crowd struct {
	mu        sync.Mutex
	now, most int
}

func (c *crowd) stay(d time.Duration) error {
	c.add(1)
	<-time.After(d)
	c.add(-1)
	return nil
}

func (c *crowd) add(change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += change
	c.most = max(c.most, c.now)
}

func TestHopelessReportsAreGivenUpAtOnce(t *testing.T) {
	runner := schema.GroupResource{Group: "actions.github.com", Resource: "ephemeralrunners"}
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"no such runner": {apierrors.NewNotFound(runner, "a"), "NotFound"},
		"invalid":        {apierrors.NewInvalid(schema.GroupKind{Kind: "EphemeralRunner"}, "a", nil), "Invalid"},
		"malformed":      {apierrors.NewBadRequest("no"), "BadRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestReporter()
				r.cluster.OnJob = func(string) error { return fmt.Errorf("patch: %w", test.err) }
				begun := time.Now()
				if !r.Deliver(t.Context(), reportsAbout("", "a"))() {
					t.Error("the message is not to be deleted")
				}
				if diff := cmp.Diff([]string{test.reason}, r.reasons); diff != "" || time.Since(begun) != 0 {
					t.Errorf("after %s dropped (-want +got):\n%s", time.Since(begun), diff)
				}
			})
		})
	}
}

// An API server that has just started forbids everything for a moment, and a 404 that does not name the object is not
// its answer.
func TestRefusalsThatMayPassAreRepeatedForAWhile(t *testing.T) {
	resource := schema.GroupResource{Group: "actions.github.com", Resource: "ephemeralrunners"}
	forbidden := apierrors.NewForbidden(resource, "a", errBroken)
	for name, test := range map[string]struct {
		refusal error
		until   time.Duration
		dropped []string
	}{
		"for a moment": {forbidden, 2 * time.Second, nil},
		"for good":     {forbidden, time.Hour, []string{"Forbidden"}},
		"gateway's 404": {
			apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", resource, "a", "", 0, true),
			2 * time.Second, nil,
		},
		"it is not there": {apierrors.NewNotFound(resource, "a"), 2 * time.Second, []string{"NotFound"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, begun := newTestReporter(), time.Now()
				r.cluster.OnJob = func(string) error {
					if time.Since(begun) < test.until {
						return test.refusal
					}
					return nil
				}
				r.Deliver(t.Context(), reportsAbout("", "a"))()
				if diff := cmp.Diff(test.dropped, r.reasons); diff != "" {
					t.Errorf("after %s dropped (-want +got):\n%s", time.Since(begun), diff)
				}
			})
		})
	}
}

func TestAReportHasAMinuteWhileTheServerTakesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestReporter()
		r.cluster.OnJob = func(runner string) error {
			if runner == "poison" {
				return apierrors.NewInternalError(errBroken)
			}
			return nil
		}
		begun := time.Now()
		wait := r.Deliver(t.Context(), reportsAbout("", "poison"))
		<-time.After(time.Second)
		r.Deliver(t.Context(), reportsAbout("", "well"))()
		wait()
		if took := time.Since(begun); took < time.Minute || took > 70*time.Second {
			t.Errorf("given up after %s, want a minute", took)
		}
		if diff := cmp.Diff([]string{v1alpha1.ReasonTimeout}, r.reasons); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
	})
}

// What runners did while the API server was down is reported later.
func TestReportsOutliveAnAbsentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestReporter()
		away := true
		r.cluster.OnJob = func(string) error {
			if away {
				return errBroken
			}
			return nil
		}
		wait := r.Deliver(t.Context(), reportsAbout("succeeded", "a"))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		away = false
		listenertest.Guarded(&r.cluster.Mu, &r.cluster.Jobs) // makes it visible to the reporter
		wait()
		if len(r.reasons) != 0 || r.cluster.Job("a").JobResult != "succeeded" {
			t.Errorf("dropped %v, report %+v", r.reasons, r.cluster.Job("a"))
		}
	})
}

func TestADeliveryThatIsCutOffSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestReporter()
		r.cluster.OnJob = func(string) error { return errBroken }
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		wait := r.Deliver(ctx, reportsAbout("", "a"))
		synctest.Wait() // it pauses
		cancel()
		if wait() || time.Since(begun) != 0 {
			t.Errorf("after %s: want to hear at once that the message is not to be deleted", time.Since(begun))
		}
	})
}
