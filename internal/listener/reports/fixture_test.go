package reports_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listener/cluster"
	"github.com/harrier-ci/harrier/internal/listener/listenertest"
	"github.com/harrier-ci/harrier/internal/listener/reports"
)

var errBroken = errors.New("broken")

// testReporter is a reporter that records dropped reports. Its methods run in a bubble.
type testReporter struct {
	*reports.Reporter
	cluster *listenertest.Cluster
	mu      sync.Mutex
	reasons []string
}

func newTestReporter() *testReporter {
	api := &listenertest.Cluster{Begun: time.Now()}
	r := reporterOf(api)
	r.cluster = api
	return r
}

func reporterOf(api cluster.Cluster) *testReporter {
	r := &testReporter{}
	r.Reporter = reports.New(api, clock.RealClock{}, logr.Discard(), func(reason string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reasons = append(r.reasons, reason)
	})
	return r
}

func reportsAbout(result string, names ...string) (all []reports.Report) {
	for _, name := range names {
		all = append(all, report(name, result, 0))
	}
	return all
}

// report returns a report about a runner, recognizable by its patchID.
func report(runner, result string, patchID int) reports.Report {
	r := reports.Report{Runner: runner}
	r.Status.JobResult, r.Status.JobPatchID = result, patchID
	return r
}

// numbered returns so many names.
func numbered(prefix string, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprint(prefix, "-", i))
	}
	return names
}

// desk is an API server that keeps each report waiting until the test answers it.
type desk struct {
	cluster.Cluster
	mu   sync.Mutex
	open []*visit
}

type visit struct {
	reports.Report
	answer chan error
}

func (v *visit) String() string {
	return fmt.Sprint(v.Runner, " ", v.Status.JobResult, " ", v.Status.JobPatchID)
}

// ReportJob implements cluster.Cluster.
func (d *desk) ReportJob(_ context.Context, runner string, status v1alpha1.EphemeralRunnerStatus) error {
	v := &visit{Report: reports.Report{Runner: runner, Status: status}, answer: make(chan error)}
	d.mu.Lock()
	d.open = append(d.open, v)
	d.mu.Unlock()
	return <-v.answer
}

// visits returns the reports that wait for an answer now, by the names of their runners.
func (d *desk) visits() []*visit {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	open := slices.Clone(d.open)
	slices.SortStableFunc(open, func(a, b *visit) int { return strings.Compare(a.Runner, b.Runner) })
	return open
}

// say answers a report.
func (d *desk) say(to *visit, answer error) {
	d.mu.Lock()
	d.open = slices.DeleteFunc(d.open, func(other *visit) bool { return other == to })
	d.mu.Unlock()
	to.answer <- answer
}

// accept accepts every report, and the reports that come after these, and returns the latter: one by one, in their
// order, because each is accepted before the next can come.
func (d *desk) accept() (after []string) {
	before := d.visits()
	for _, busy := range before {
		d.say(busy, nil)
		for next := d.other(before); next != nil; next = d.other(before) {
			after = append(after, next.String())
			d.say(next, nil)
		}
	}
	return after
}

// other returns a report that waits for an answer and isn't one of those, nil if there is none.
func (d *desk) other(than []*visit) *visit {
	for _, v := range d.visits() {
		if !slices.Contains(than, v) {
			return v
		}
	}
	return nil
}
