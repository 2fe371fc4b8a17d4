package rules_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/podstatus"
	"github.com/harrier-ci/harrier/internal/testkube/runnerpods"
)

// sight is what passes see of a pod, so long after noon.
type sight[T any] struct {
	after time.Duration
	what  T
}

var (
	starting   = runnerpods.With(corev1.PodPending, runnerpods.WaitingFor("ContainerCreating"))
	cannotMake = runnerpods.With(corev1.PodPending, runnerpods.WaitingFor("CreateContainerError"))
	up         = runnerpods.With(corev1.PodRunning, runnerpods.Running)
)

// A runner has been up since its container was first seen to run.
func TestAttemptStartsWhenItsContainerIsFirstSeenToRun(t *testing.T) {
	for title, test := range map[string]struct {
		seen []sight[*corev1.Pod]
		want time.Time
	}{
		"starting":               {[]sight[*corev1.Pod]{{0, starting}}, time.Time{}},
		"can't be created":       {[]sight[*corev1.Pod]{{0, cannotMake}}, time.Time{}},
		"runs":                   {[]sight[*corev1.Pod]{{0, starting}, {time.Second, up}}, noon.Add(time.Second)},
		"runs, seen again":       {[]sight[*corev1.Pod]{{0, up}, {time.Second, up}}, noon},
		"runs, then seems older": {[]sight[*corev1.Pod]{{0, up}, {time.Second, starting}}, noon},
	} {
		var a rules.Attempt
		for _, s := range test.seen {
			a.SeeStart(s.what, noon.Add(s.after))
		}
		if !a.StartedAt.Equal(test.want) {
			t.Errorf("%s: started at %s, want %s", title, a.StartedAt, test.want)
		}
	}
}

// A kubelet has 5 s to create a container, from when it was first seen to fail. If it has made progress meanwhile, it
// has that time again.
func TestKubeletHasFiveSecondsToCreateAContainer(t *testing.T) {
	for title, test := range map[string]struct {
		seen []sight[*corev1.Pod]
		due  time.Duration // after noon
	}{
		"fails":                        {[]sight[*corev1.Pod]{{0, cannotMake}}, 5 * time.Second},
		"fails again":                  {[]sight[*corev1.Pod]{{0, cannotMake}, {time.Second, cannotMake}}, 5 * time.Second},
		"fails, goes on, fails":        {[]sight[*corev1.Pod]{{0, cannotMake}, {time.Second, starting}, {2 * time.Second, cannotMake}}, 7 * time.Second},
		"is slow at first, then fails": {[]sight[*corev1.Pod]{{0, starting}, {3 * time.Second, cannotMake}}, 8 * time.Second},
	} {
		o := given(podstatus.Blocked)
		o.Pod.Passing = true
		for _, s := range test.seen {
			o.Now = noon.Add(s.after)
			o.SeeStart(s.what, o.Now)
		}
		if want := (rules.Decision{RequeueAt: noon.Add(test.due)}); rules.Plan(o) != want {
			t.Errorf("%s: %+v, want %+v", title, rules.Plan(o), want)
		}
	}
}

// How an attempt ended is what its pod said first, unless it exited with 0: that is never overwritten. When it ended is
// when that, or the loss of a pod that was at work, was first seen.
func TestAttemptEndsWhenItIsFirstSeenToHaveEnded(t *testing.T) {
	type seen = []sight[podstatus.Phase]
	const second = time.Second
	job := v1alpha1.EphemeralRunnerStatus{JobID: "job"}
	idle := v1alpha1.EphemeralRunnerStatus{}
	started := rules.Attempt{StartedAt: noon}
	for title, test := range map[string]struct {
		attempt rules.Attempt
		status  v1alpha1.EphemeralRunnerStatus
		seen    seen
		want    podstatus.Phase
		after   time.Duration // 0 if it has not ended
	}{
		"starts":                               {rules.Attempt{}, idle, seen{{second, podstatus.Pending}}, podstatus.Missing, 0},
		"can't start":                          {rules.Attempt{}, idle, seen{{second, podstatus.Blocked}}, podstatus.Missing, 0},
		"starts, its job was reported before":  {rules.Attempt{}, job, seen{{second, podstatus.Pending}}, podstatus.Missing, 0},
		"runs":                                 {started, idle, seen{{second, podstatus.Running}}, podstatus.Missing, 0},
		"failed":                               {started, idle, seen{{second, podstatus.Failed}}, podstatus.Failed, second},
		"failed, its start was not seen":       {rules.Attempt{}, idle, seen{{second, podstatus.Failed}}, podstatus.Failed, second},
		"never started":                        {rules.Attempt{}, idle, seen{{second, podstatus.NeverStarted}}, podstatus.NeverStarted, second},
		"failed, seen again":                   {started, idle, seen{{second, podstatus.Failed}, {2 * second, podstatus.Failed}}, podstatus.Failed, second},
		"failed, then its pod is gone":         {started, idle, seen{{second, podstatus.Failed}, {2 * second, podstatus.Missing}}, podstatus.Failed, second},
		"exited with 0":                        {started, idle, seen{{second, podstatus.Succeeded}}, podstatus.Succeeded, second},
		"exited with 0, then its pod failed":   {started, job, seen{{second, podstatus.Succeeded}, {2 * second, podstatus.Failed}}, podstatus.Succeeded, second},
		"exited with 0, then its pod is gone":  {started, job, seen{{second, podstatus.Succeeded}, {2 * second, podstatus.Missing}}, podstatus.Succeeded, second},
		"seemed lost with its node, was not":   {started, job, seen{{second, podstatus.Failed}, {2 * second, podstatus.Succeeded}}, podstatus.Succeeded, second},
		"has no pod yet":                       {rules.Attempt{}, idle, seen{{second, podstatus.Missing}}, podstatus.Missing, 0},
		"lost its pod after its start":         {started, idle, seen{{second, podstatus.Missing}}, podstatus.Missing, second},
		"lost its pod with its job":            {rules.Attempt{}, job, seen{{second, podstatus.Missing}}, podstatus.Missing, second},
		"lost its pod, seen again":             {started, job, seen{{second, podstatus.Missing}, {2 * second, podstatus.Missing}}, podstatus.Missing, second},
		"pod is seen after the job":            {rules.Attempt{}, job, seen{{second, podstatus.Missing}, {2 * second, podstatus.Running}}, podstatus.Missing, 0},
		"pod is seen after the job, and fails": {rules.Attempt{}, job, seen{{second, podstatus.Missing}, {2 * second, podstatus.Running}, {3 * second, podstatus.Failed}}, podstatus.Failed, 3 * second},
	} {
		t.Run(title, func(t *testing.T) {
			a := test.attempt
			for _, s := range test.seen {
				a.SeeEnd(&test.status, rules.Outcome{State: podstatus.State{Phase: s.what}}, noon.Add(s.after))
			}
			var want time.Time
			if test.after != 0 {
				want = noon.Add(test.after)
			}
			if a.Ending != test.want || !a.EndedAt.Equal(want) {
				t.Errorf("ended as %d at %s, want %d at %s", a.Ending, a.EndedAt, test.want, want)
			}
		})
	}
}
