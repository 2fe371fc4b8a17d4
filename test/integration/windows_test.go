package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

const (
	// The window of the test is open for windowLength at the beginning of each minute. The numbers follow an edge of it
	// within edgeGrace.
	windowLength = 25 * time.Second
	edgeGrace    = 10 * time.Second
)

// sinceOpened returns the time since the last window opened.
func sinceOpened(at time.Time) time.Duration { return at.Sub(at.Truncate(time.Minute)) }

// A window opens and closes on the minute: the numbers in force follow within ten seconds of each edge, as status,
// columns and Events say, and so do the runners: more jobs run at a time while it is open, and no more than the spec's
// number do when it is closed.
func TestWindowsOpenAndCloseOnTheMinute(t *testing.T) {
	const few, many = 2, 5
	r := rig.Start(t, testkube.Borrow(t), rig.Options{
		GitHub: fakegithub.Options{PollLength: 5 * time.Second}, MaxRunners: few,
		ScaleSetValues: rig.Values{"schedules": []any{rig.Values{
			"name": "rush", "schedule": "* * * * *", "duration": windowLength.String(), "minRunners": 1, "maxRunners": many,
		}}},
	})
	ids := r.QueueJobs(80, 3*time.Second)
	g := gomega.NewWithT(t)
	var edges []time.Duration
	wasOpen, most := -1, 0
	key := client.ObjectKey{Namespace: r.RunnerNamespace, Name: rig.DefaultSet}
	g.Eventually(func() int {
		now, running := time.Now(), len(r.GitHub.Jobs("running"))
		set := &v1alpha1.AutoscalingRunnerSet{}
		g.Expect(r.Cluster.Client().Get(t.Context(), key, set)).To(gomega.Succeed())
		if *set.Spec.MaxRunners != few {
			t.Errorf("spec.maxRunners is %d", *set.Spec.MaxRunners)
		}
		open := len(set.Status.ActiveSchedules)
		if open != wasOpen && wasOpen >= 0 {
			edges = append(edges, sinceOpened(time.Now()))
		}
		wasOpen = open
		switch since := sinceOpened(now); {
		case running > many:
			t.Errorf("%d jobs run at a time, where %d may", running, many)
		case since < windowLength:
			most = max(most, running)
		case since > windowLength+edgeGrace+5*time.Second && running > few: // the last jobs have ended
			t.Errorf("%d jobs run at a time %s after the window has closed, where %d may", running, since-windowLength, few)
		}
		if status := &set.Status; (open == 1 && (status.EffectiveMinRunners != 1 || *status.EffectiveMaxRunners != many)) ||
			(open == 0 && (status.EffectiveMinRunners != 0 || *status.EffectiveMaxRunners != few)) {
			t.Errorf("%d windows are open, and the status says %+v", open, status.EffectiveCapacity)
		}
		return len(edges)
	}, 3*time.Minute, 100*time.Millisecond).Should(gomega.BeNumerically(">=", 3), "edges seen")
	t.Logf("edges were followed at %s of a minute; %d jobs at most ran at a time", edges, most)
	wantOnTime(t, edges)
	if most <= few {
		t.Errorf("no more than %d jobs ran at a time in a window that allows %d", most, many)
	}
	wantWindowsTold(t, r)
	r.WaitDone(ids)
}

// wantOnTime checks that the numbers changed after an edge, and soon.
func wantOnTime(t *testing.T, edges []time.Duration) {
	t.Helper()
	for _, at := range edges {
		if late := at - windowLength; at > edgeGrace && (late < 0 || late > edgeGrace) {
			t.Errorf("the numbers changed at %s of a minute, where edges are at 0 s and %s", at, windowLength)
		}
	}
}

// wantWindowsTold checks that columns and Events of kubectl tell of the window.
func wantWindowsTold(t *testing.T, r *rig.Rig) {
	t.Helper()
	g := gomega.NewWithT(t)
	table, err := r.Kubectl("get", "autoscalingrunnersets", rig.DefaultSet, "--namespace", r.RunnerNamespace)
	g.Expect(err).NotTo(gomega.HaveOccurred(), table)
	lines := strings.Split(table, "\n")
	numbers := column(lines, "MIN") + " " + column(lines, "MAX")
	if !slices.Contains([]string{"0 2", "1 5"}, numbers) {
		t.Errorf("the columns are\n%s", table)
	}
	events, err := r.Kubectl("get", "events", "--namespace", r.RunnerNamespace,
		"--field-selector", "involvedObject.name="+rig.DefaultSet)
	g.Expect(err).NotTo(gomega.HaveOccurred(), events)
	for _, reason := range []string{"ScheduleStarted", "ScheduleEnded"} {
		if !strings.Contains(events, reason) {
			t.Errorf("no Event %s among\n%s", reason, events)
		}
	}
}

// column returns the value below a heading of a table of kubectl with one row.
func column(lines []string, heading string) string {
	at := strings.Index(lines[0], heading)
	if at < 0 || len(lines) < 2 || len(lines[1]) <= at {
		return ""
	}
	return strings.TrimSpace(strings.SplitN(lines[1][at:], "  ", 2)[0])
}
