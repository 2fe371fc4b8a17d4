package reports_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/listener/reports"
)

// busyReporter returns a reporter that writes six ends, as many as may be in flight, until the desk answers them.
func busyReporter(t *testing.T) (*testReporter, *desk) {
	t.Helper()
	d := &desk{}
	r := reporterOf(d)
	r.Deliver(t.Context(), reportsAbout("succeeded", numbered("busy", 6)...))
	if open := d.visits(); len(open) != 6 {
		t.Fatalf("%d reports at once, want 6", len(open))
	}
	return r, d
}

func TestReportQueueOrder(t *testing.T) {
	for name, test := range map[string]struct {
		reports []reports.Report
		want    []string
	}{
		"ends before starts": {
			[]reports.Report{report("a", "", 1), report("b", "failed", 2)}, []string{"b failed 2", "a  1"}},
		"each in their order": {
			[]reports.Report{report("b", "", 1), report("a", "", 2)}, []string{"b  1", "a  2"}},
		"an end says the start too": {
			[]reports.Report{report("b", "", 1), report("a", "", 1), report("a", "failed", 2)},
			[]string{"a failed 2", "b  1"}},
		"a late start keeps the end": {
			[]reports.Report{report("a", "failed", 1), report("a", "", 2)}, []string{"a failed 2"}},
		"the last of two ends": {
			[]reports.Report{report("a", "failed", 1), report("a", "succeeded", 2)},
			[]string{"a succeeded 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, d := busyReporter(t)
				var waits []func() bool
				for _, report := range test.reports {
					waits = append(waits, r.Deliver(t.Context(), []reports.Report{report}))
				}
				if diff := cmp.Diff(test.want, d.accept()); diff != "" {
					t.Errorf("reports (-want +got):\n%s", diff)
				}
				for _, written := range waits {
					if !written() {
						t.Error("a delivery said it was given up")
					}
				}
			})
		})
	}
}

func TestAnEndWaitsForTheStartUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		r := reporterOf(d)
		first := r.Deliver(t.Context(), []reports.Report{report("a", "", 1)})
		under := d.visits()
		second := r.Deliver(t.Context(), []reports.Report{report("a", "", 2)})
		third := r.Deliver(t.Context(), []reports.Report{report("a", "failed", 3)})
		if again := d.other(under); again != nil {
			t.Fatalf("%s is written beside the first", again)
		}
		d.say(under[0], nil)
		first()
		next := d.visits()
		if diff := cmp.Diff("[a failed 3]", fmt.Sprint(next)); diff != "" {
			t.Fatalf("after it (-want +got):\n%s", diff)
		}
		if more := d.accept(); len(more) > 0 {
			t.Errorf("then %v is written as well", more)
		}
		second()
		third()
	})
}

func TestAFailedStartIsTriedAgainWithTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		r := reporterOf(d)
		waits := []func() bool{r.Deliver(t.Context(), []reports.Report{report("a", "", 1)})}
		first := d.visits()[0]
		waits = append(waits, r.Deliver(t.Context(), []reports.Report{report("a", "", 2)}))
		d.say(first, errBroken)
		synctest.Wait()
		waits = append(waits, r.Deliver(t.Context(), []reports.Report{report("a", "failed", 3)}))
		if early := d.visits(); len(early) > 0 {
			t.Fatalf("%v is written in its pause", early)
		}
		<-time.After(200 * time.Millisecond) // the first pause lasts no longer
		if diff := cmp.Diff("[a failed 3]", fmt.Sprint(d.visits())); diff != "" {
			t.Fatalf("after the pause (-want +got):\n%s", diff)
		}
		if more := d.accept(); len(more) > 0 {
			t.Errorf("then %v is written as well", more)
		}
		for _, written := range waits {
			written()
		}
	})
}

// While a start waits, the pod of its job may not be protected: after a second sixteen starts are written at a time in
// place of two, and not in place of ends.
func TestMoreStartsAreWrittenWhenTheyHaveWaitedLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		r := reporterOf(d)
		r.Deliver(t.Context(), reportsAbout("", numbered("runner", 20)...))
		<-time.After(time.Second - 1)
		r.Hold(t.Context(), false) // changes nothing, but has the queue looked at
		if got := len(d.visits()); got != 2 {
			t.Errorf("%d at once, want 2", got)
		}
		<-time.After(1)
		r.Hold(t.Context(), false)
		if got := len(d.visits()); got != 16 {
			t.Errorf("%d at once after a second, want 16", got)
		}
		r.Deliver(t.Context(), reportsAbout("failed", numbered("another", 8)...))
		if got := len(d.visits()); got != 16+6 {
			t.Errorf("%d at once with 8 ends, want 6 of them beside the starts", got)
		}
		d.accept()
	})
}

// Five hundred jobs start in one message, and as many end: each write takes 40 ms. The manager has every start in time
// to protect its pod within two seconds of the message.
func TestEveryStartIsWrittenInTime(t *testing.T) {
	const jobs, latency, atMost = 500, 40 * time.Millisecond, 1500 * time.Millisecond
	for name, ends := range map[string]int{"starts alone": 0, "starts among ends": jobs} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, begun := newTestReporter(), time.Now()
				var mu sync.Mutex
				var last time.Duration // at which a start was written
				r.cluster.OnJob = func(runner string) error {
					<-time.After(latency)
					mu.Lock()
					defer mu.Unlock()
					if strings.HasPrefix(runner, "starts") {
						last = time.Since(begun)
					}
					return nil
				}
				message := append(reportsAbout("", numbered("starts", jobs)...),
					reportsAbout("succeeded", numbered("ends", ends)...)...)
				r.Deliver(t.Context(), message)()
				if last > atMost {
					t.Errorf("the last of %d starts is written after %s, want %s at most", jobs, last, atMost)
				}
			})
		})
	}
}

// Fields that the end leaves out keep what the start said.
func TestAnEndThatSaysLessKeepsWhatTheStartSaid(t *testing.T) {
	start, end := report("a", "", 1), report("a", "failed", 2)
	start.Status.JobID, start.Status.JobDisplayName, end.Status.JobDisplayName = "job", "old", "new"
	got := merged(t, start, end)
	if got.JobID != "job" || got.JobDisplayName != "new" || got.JobResult != "failed" {
		t.Errorf("report = %+v", got)
	}
}

// Merging two reports loses no field.
func TestMergedReportsKeepEveryField(t *testing.T) {
	job := actions.JobMessageBase{
		RunnerRequestID: 1, JobID: "job", OwnerName: "my", RepositoryName: "repo", JobWorkflowRef: "ref",
		WorkflowRunID: 2, JobDisplayName: "name", EventName: "push", QueueTime: time.Unix(1700000000, 0),
		ScaleSetAssignTime: time.Unix(1700000001, 0), RunnerAssignTime: time.Unix(1700000002, 0),
	}
	full := reports.Of(&actions.Message{
		JobsCompleted: []actions.JobCompleted{{RunnerName: "a", Result: "failed", JobMessageBase: job}},
	}, 3, time.Unix(1, 0))[0]
	empty := reports.Report{Runner: "a"}
	for _, got := range []v1alpha1.EphemeralRunnerStatus{merged(t, full, empty), merged(t, empty, full)} {
		if diff := cmp.Diff(full.Status, got); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
	}
}

// merged returns what is written of two reports about the runner a that both wait in the queue.
func merged(t *testing.T, older, newer reports.Report) (got v1alpha1.EphemeralRunnerStatus) {
	synctest.Test(t, func(t *testing.T) {
		r, d := busyReporter(t)
		busy := d.visits()
		r.Deliver(t.Context(), []reports.Report{older})
		r.Deliver(t.Context(), []reports.Report{newer})
		d.say(busy[0], nil)
		next := d.other(busy)
		if next == nil || next.Runner != "a" {
			t.Fatalf("with room for one more: %v", next)
		}
		got = next.Status
		if more := d.accept(); len(more) > 0 {
			t.Errorf("they were not merged: %v", more)
		}
	})
	return got
}
