package conditions_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/conditions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
)

func TestCountsAreThoseOfAllRunnerSets(t *testing.T) {
	status := healthy(func(f *conditions.Findings) {
		f.RunnerSets = append(f.RunnerSets,
			v1alpha1.EphemeralRunnerSet{Status: v1alpha1.EphemeralRunnerSetStatus{CurrentReplicas: 2,
				PendingEphemeralRunners: 2}})
	}).NextStatus("1.2.3")
	got := []int{status.CurrentRunners, status.PendingEphemeralRunners, status.RunningEphemeralRunners,
		status.FailedEphemeralRunners}
	if want := []int{5, 2, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("current, pending, running, failed = %v, want %v", got, want)
	}
}

func TestStatusCountsJobsAndBusyRunners(t *testing.T) {
	status := healthy(func(f *conditions.Findings) {
		f.RunnerSets[0].Spec.AssignedJobs, f.RunnerSets[0].Status.Desired, f.RunnerSets[0].Status.BusyRunners = 4, new(5), 1
	}).NextStatus("1.2.3")
	if status.AssignedJobs != 4 || status.DesiredRunners != 5 || status.BusyRunners != 1 || status.IdleRunners != 1 {
		t.Errorf("%+v, want 4 jobs, 5 desired, 1 busy, 1 idle", status)
	}
}

// Nothing could be created for such a set, so nothing is created on GitHub either.
func TestANameThatFitsNoLabelIsRefused(t *testing.T) {
	set := newSet()
	set.Name = strings.Repeat("a", 63)
	if _, err := scaleset.DesiredOf(set); err != nil {
		t.Errorf("a name of 63 characters: %v", err)
	}
	set.Name += "a"
	_, err := scaleset.DesiredOf(set)
	refused := &conditions.Findings{Set: set, Cause: err}
	condition := conditionOf(t, refused, v1alpha1.ConditionScaleSetRegistered)
	if condition.Status != metav1.ConditionFalse || condition.Reason != v1alpha1.ReasonNameTooLong {
		t.Fatalf("a name of 64 characters: %v, %+v", err, condition)
	}
	stalled := conditionOf(t, refused, v1alpha1.ConditionStalled) // it lasts until a user does something
	if stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonNameTooLong {
		t.Errorf("a name of 64 characters: %+v", stalled)
	}
	for _, part := range []string{"64 characters", "at most 63", "create it under a shorter name"} {
		if !strings.Contains(condition.Message, part) {
			t.Errorf("the message %q doesn't say %q", condition.Message, part)
		}
	}
}

// A set is drained when its session is closed and nothing is left.
func TestDrained(t *testing.T) {
	const closed = v1alpha1.ListenerStateClosed
	for name, test := range map[string]struct {
		value         string
		state         v1alpha1.ListenerState
		jobs, runners int
		known         bool
		want          string // status and reason
		says          string
	}{
		"never asked":     {"", closed, 0, 0, false, "", ""},
		"another value":   {"false", closed, 0, 0, false, "", ""},
		"session open":    {"true", v1alpha1.ListenerStateListening, 0, 0, false, "False/DrainingRunners", "has not closed its session"},
		"jobs are left":   {"true", closed, 2, 0, false, "False/DrainingRunners", "assigned jobs: 2, runners: 0"},
		"runners left":    {"true", closed, 0, 3, false, "False/DrainingRunners", "runners: 3"},
		"nothing is left": {"true", closed, 0, 0, false, "True/Drained", "remove the annotation actions.github.com/drained"},
		"no longer":       {"", closed, 0, 0, true, "False/TakesJobs", ""},
	} {
		f := healthy(func(f *conditions.Findings) {
			f.Set.Annotations = map[string]string{v1alpha1.AnnotationDrained: test.value}
			runnerSet := &f.RunnerSets[0]
			runnerSet.Status.Listener.State, runnerSet.Spec.AssignedJobs,
				runnerSet.Status.RunningEphemeralRunners = test.state,
				test.jobs, test.runners
			if test.known {
				f.Set.Status.Conditions = append(f.Set.Status.Conditions,
					metav1.Condition{Type: v1alpha1.ConditionDrained, Status: metav1.ConditionTrue})
			}
		})
		got, says := "", ""
		if c := conditionOf(t, f, v1alpha1.ConditionDrained); c.Status != "" {
			got, says = string(c.Status)+"/"+c.Reason, c.Message
		}
		if got != test.want || !strings.Contains(says, test.says) {
			t.Errorf("%s: %s: %q, want %s: %q", name, got, says, test.want, test.says)
		}
		if drained := test.value == "true"; drained != (f.Numbers.Accepted() == 0) ||
			(drained && f.NextStatus("1.2.3").EffectiveMinRunners != 0) {
			t.Errorf("%s: %+v is in force", name, f.Numbers)
		}
		if ready := conditionOf(t, f, v1alpha1.ConditionReady); test.value == "true" &&
			(ready.Reason != v1alpha1.ReasonDrained || !strings.Contains(ready.Message, "the annotation")) {
			t.Errorf("%s: Ready says %s: %s", name, ready.Reason, ready.Message)
		}
	}
}

// A closed session is as wanted while maxRunners is 0, and only then.
func TestAListenerWithoutASessionIsReadyWhileMaxRunnersIsZero(t *testing.T) {
	closed := v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateClosed, Reason: v1alpha1.ReasonMaxRunnersZero,
		Message: "closed"}
	podReady := func(f *conditions.Findings, ready metav1.ConditionStatus) {
		f.Listeners[0].Status.Conditions[0].Status = ready
	}
	for name, test := range map[string]struct {
		change func(*conditions.Findings)
		status metav1.ConditionStatus
		reason string
	}{
		"closed": {func(f *conditions.Findings) { f.Set.Spec.MaxRunners = new(0) }, metav1.ConditionTrue, v1alpha1.ReasonMaxRunnersZero},
		"its pod fails": {func(f *conditions.Findings) { f.Set.Spec.MaxRunners = new(0); podReady(f, metav1.ConditionFalse) },
			metav1.ConditionFalse, "PodReady"},
		"raised, not opened yet": {func(f *conditions.Findings) { f.Set.Spec.MaxRunners = new(2) }, metav1.ConditionUnknown, "ListenerStarting"},
		"without a limit":        {func(*conditions.Findings) {}, metav1.ConditionUnknown, "ListenerStarting"},
	} {
		condition := conditionOf(t, healthy(func(f *conditions.Findings) {
			f.RunnerSets[0].Status.Listener = &closed
			test.change(f)
		}), v1alpha1.ConditionListenerReady)
		if condition.Status != test.status || condition.Reason != test.reason {
			t.Errorf("%s: %s/%s, want %s/%s", name, condition.Status, condition.Reason, test.status, test.reason)
		}
	}
}

// Whoever waits for what GitHub has kept for a session counts from the time at which it was opened again, also if nobody
// has seen the moment between.
func TestASessionThatIsOpenAgainIsATransition(t *testing.T) {
	for reason, moves := range map[string]bool{v1alpha1.ReasonDrained: true, v1alpha1.ReasonMaxRunnersZero: true,
		"Listening": false} {
		before := metav1.NewTime(time.Unix(1_700_000_000, 0))
		f := healthy(func(f *conditions.Findings) {
			f.Set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionListenerReady,
				Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: before}}
		})
		c := conditionOf(t, f, v1alpha1.ConditionListenerReady)
		if c.Reason != "Listening" || c.LastTransitionTime.Equal(&before) == moves {
			t.Errorf("after %s: %s since %s", reason, c.Reason, c.LastTransitionTime)
		}
	}
}

// What is said to come from the listener may be from anybody who may write the status of the runner set: its words are
// ours or Other, its text is cut.
func TestForgedReportsOfAListenerAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		said v1alpha1.ListenerStatus
		want string
	}{
		"ours":           {v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: v1alpha1.ReasonRateLimited}, v1alpha1.ReasonRateLimited},
		"without reason": {v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateConflict}, v1alpha1.ReasonSessionConflict},
		"forged reason":  {v1alpha1.ListenerStatus{State: v1alpha1.ListenerStateRetrying, Reason: "Forged1"}, "Other"},
		"forged state":   {v1alpha1.ListenerStatus{State: "Forged2", Message: strings.Repeat("x", 1<<20)}, "Other"},
	} {
		f := healthy(func(f *conditions.Findings) { f.RunnerSets[0].Status.Listener = &test.said })
		if got := conditionOf(t, f, v1alpha1.ConditionListenerReady); got.Reason != test.want || len(got.Message) > 1024 {
			t.Errorf("%s: reason %s and %d bytes, want %s and at most 1024", name, got.Reason, len(got.Message),
				test.want)
		}
	}
}

func TestVersionSupported(t *testing.T) {
	const matches, differs, none = "True/VersionMatches", "False/VersionDiffers", "True/NoVersionLabel"
	for _, test := range []struct{ chart, manager, want string }{
		{"1.2.3", "1.2.3", matches},
		{"1.2.0", "1.2.9", matches},
		{"v1.2.0", "1.2.9", matches},
		{"1.2", "1.2.9", matches},
		{"1.3.0", "1.2.9", differs},
		{"2.2.0", "1.2.0", differs},
		{"", "1.2.0", none},
		{"01.2.0", "1.2.0", differs},
		{"1.2.0-rc1", "1.2.0", differs},
		{"main", "main", matches},
		{"0.14.2", "dev", matches},
		{"", "canary-abc", none},
		{"1.2.0", "canary-abc", matches},
	} {
		f := healthy(func(f *conditions.Findings) {
			f.Set.Labels = map[string]string{v1alpha1.LabelVersion: test.chart}
		})
		c := meta.FindStatusCondition(f.NextStatus(test.manager).Conditions, v1alpha1.ConditionVersionSupported)
		if got := string(c.Status) + "/" + c.Reason; got != test.want {
			t.Errorf("chart %q and manager %q: %s, want %s", test.chart, test.manager, got, test.want)
		}
	}
}

// The set says the number of jobs for which GitHub is told that there is room, and keeps what is known of the cluster
// beyond its runner set.
func TestStatusSaysForHowManyJobsThereIsRoom(t *testing.T) {
	known, former := &v1alpha1.PlacementStatus{Mark: 7, Window: 10}, &v1alpha1.PlacementStatus{Mark: 3, Window: 10}
	for name, test := range map[string]struct {
		places         bool
		most, capacity *int
		of             *v1alpha1.PlacementStatus // what the runner set knows
		noRunnerSet    bool
		want           *int
		kept           *v1alpha1.PlacementStatus
	}{
		"no limit":                   {},
		"maxRunners":                 {most: new(40), want: new(40)},
		"a sick set":                 {most: new(40), capacity: new(3), want: new(3)},
		"a sick set without limit":   {capacity: new(3), want: new(3)},
		"what is placed":             {places: true, most: new(40), capacity: new(17), of: known, want: new(17), kept: known},
		"never more than maxRunners": {places: true, most: new(4), capacity: new(17), of: known, want: new(4), kept: known},
		"a new runner set":           {places: true, most: new(40), want: new(40), kept: former},
		"between two runner sets":    {places: true, noRunnerSet: true, kept: former},
	} {
		status := healthy(func(f *conditions.Findings) {
			f.Set.Status.Placement = former
			f.RunnerSets[0].Spec.MaxRunners, f.RunnerSets[0].Status.Capacity,
				f.RunnerSets[0].Status.Placement = test.most,
				test.capacity, test.of
			if test.places {
				f.Set.Spec.Capacity = &v1alpha1.CapacitySpec{Mode: v1alpha1.CapacityPlacement}
			}
			if test.noRunnerSet {
				f.RunnerSets = nil
			}
		}).NextStatus("1.2.3")
		if diff := cmp.Diff(test.want, status.AdvertisedCapacity); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(test.kept, status.Placement); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}
