package volumeclaims_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/volumeclaims"
)

// A job's result comes late if the listener was away when it ended. Until then nobody gets the claims, and nobody loses
// them.
func TestAResultIsWaitedForWhileTheListenerIsAway(t *testing.T) {
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	listens := func(status metav1.ConditionStatus, since time.Time) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: status,
			LastTransitionTime: metav1.NewTime(since)}}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		change     func(*v1alpha1.AutoscalingRunnerSet, *volumeclaims.Runner)
		now        time.Time // start if zero
		want       time.Time // zero: it is not waited for
	}{
		"the listener listens":   {conditions: listens(metav1.ConditionTrue, at(-60)), want: at(1)},
		"it is away":             {conditions: listens(metav1.ConditionFalse, at(-60)), want: at(5)},
		"nobody knows":           {conditions: listens(metav1.ConditionUnknown, at(-60)), want: at(5)},
		"it came back":           {conditions: listens(metav1.ConditionTrue, at(2)), now: at(2), want: at(3)},
		"it came back late":      {conditions: listens(metav1.ConditionTrue, at(4)), now: at(4), want: at(5)},
		"another clock is ahead": {conditions: listens(metav1.ConditionTrue, at(10)), want: at(1)},
		"the set goes": {conditions: listens(metav1.ConditionFalse, at(-60)),
			change: func(s *v1alpha1.AutoscalingRunnerSet, _ *volumeclaims.Runner) {
				s.DeletionTimestamp = new(metav1.Now())
			}},
		"the result is known":             {conditions: listens(metav1.ConditionFalse, at(-60)), change: func(_ *v1alpha1.AutoscalingRunnerSet, r *volumeclaims.Runner) { r.Job.Result = "failed" }},
		"the event is, and is untrusted":  {conditions: listens(metav1.ConditionFalse, at(-60)), change: func(_ *v1alpha1.AutoscalingRunnerSet, r *volumeclaims.Runner) { r.Job.Event = "pull_request" }},
		"nobody has seen the runner end ": {conditions: listens(metav1.ConditionFalse, at(-60)), change: func(_ *v1alpha1.AutoscalingRunnerSet, r *volumeclaims.Runner) { r.EndedAt = time.Time{} }},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet("docker")
			set.Spec.VolumeClaimPool.KeepAfter = &v1alpha1.KeepClaimsAfter{Events: []string{"push"},
				Results: []string{"succeeded"}}
			set.Status.Conditions = test.conditions
			runner := &volumeclaims.Runner{Started: true, EndedAt: start, Job: volumeclaims.Job{Event: "push"}}
			if test.change != nil {
				test.change(set, runner)
			}
			verdict, _, due := volumeclaims.Returns(set, runner, kube.LaterOf(start, test.now))
			if (verdict == volumeclaims.Awaited) == test.want.IsZero() || !due.Equal(test.want) {
				t.Errorf("%s until %s, want it until %s", verdict, due, test.want)
			}
			if verdict, why, _ := volumeclaims.Returns(set, runner, at(12)); verdict != volumeclaims.Spoiled ||
				why == "" {
				t.Errorf("twelve minutes later: %s", verdict)
			}
		})
	}
}

// A set that takes no jobs has no session: GitHub keeps the reports for the next one, and the claims are kept for them.
func TestASetThatTakesNoJobsLosesNoClaims(t *testing.T) {
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	const night = 12 * 60
	drained := func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Annotations = map[string]string{v1alpha1.AnnotationDrained: v1alpha1.DrainedValue}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.AutoscalingRunnerSet)
		status metav1.ConditionStatus
		reason string
		since  int
		now    int
		want   volumeclaims.Verdict
		due    int // 0: there is no end
	}{
		"drained":                 {drained, metav1.ConditionTrue, v1alpha1.ReasonDrained, -60, night, volumeclaims.Awaited, 0},
		"drained a moment ago":    {drained, metav1.ConditionTrue, "Listening", -60, night, volumeclaims.Awaited, 0},
		"its listener fails":      {drained, metav1.ConditionFalse, "PodCrashed", 1, night, volumeclaims.Awaited, 0},
		"a window has no runners": {func(s *v1alpha1.AutoscalingRunnerSet) { s.Status.EffectiveMaxRunners = new(0) }, metav1.ConditionFalse, "PodCrashed", -60, night, volumeclaims.Awaited, 0},
		"not opened yet":          {nil, metav1.ConditionTrue, v1alpha1.ReasonMaxRunnersZero, -60, night, volumeclaims.Awaited, 0},
		"it is being opened":      {nil, metav1.ConditionUnknown, "ListenerStarting", night, night, volumeclaims.Awaited, night + 5},
		"GitHub is away then":     {nil, metav1.ConditionFalse, "GitHubUnavailable", night, night + 4, volumeclaims.Awaited, night + 5},
		"and stays away":          {nil, metav1.ConditionFalse, "GitHubUnavailable", night, night + 5, volumeclaims.Spoiled, 0},
		"it was opened":           {nil, metav1.ConditionTrue, "Listening", night, night, volumeclaims.Awaited, night + 1},
		"and brought nothing":     {nil, metav1.ConditionTrue, "Listening", night, night + 1, volumeclaims.Spoiled, 0},
		"it goes": {func(s *v1alpha1.AutoscalingRunnerSet) { drained(s); s.DeletionTimestamp = new(metav1.Now()) },
			metav1.ConditionTrue, v1alpha1.ReasonDrained, -60, 1, volumeclaims.Spoiled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet("docker")
			set.Spec.VolumeClaimPool.KeepAfter = &v1alpha1.KeepClaimsAfter{Results: []string{"succeeded"}}
			set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionListenerReady, Status: test.status,
				Reason: test.reason, LastTransitionTime: metav1.NewTime(at(test.since))}}
			if test.change != nil {
				test.change(set)
			}
			var want time.Time
			if test.due != 0 {
				want = at(test.due)
			}
			runner := &volumeclaims.Runner{Started: true, EndedAt: start}
			if got, _, due := volumeclaims.Returns(set, runner, at(test.now)); got != test.want || !due.Equal(want) {
				t.Errorf("%s until %s, want %s until %s", got, due, test.want, want)
			}
			runner.Job.Result = "succeeded" // the report has come
			if got, _, _ := volumeclaims.Returns(set, runner, at(test.now)); got != volumeclaims.Kept {
				t.Errorf("with the report: %s", got)
			}
		})
	}
}

func TestAClaimIsNeitherLeasedNorDeletedWhileAResultMayCome(t *testing.T) {
	s := newScene(t, newSet("docker"))
	s.Set.Spec.VolumeClaimPool.KeepAfter = &v1alpha1.KeepClaimsAfter{Results: []string{"succeeded"}}
	s.claim("docker", "22222")
	r := s.runner("r", "22222")
	r.Done, r.Started, r.EndedAt = true, true, s.Now
	d := s.plan(1)
	if got := names(d, "docker"); deleted(d) != "" || got[0] == "linux-docker-22222" ||
		!d.RequeueAt.Equal(s.Now.Add(time.Minute)) {
		t.Errorf("leased %v, deleted %q, decides again at %s", got, deleted(d), d.RequeueAt)
	}
	r.Job.Result = "succeeded"
	if got := names(s.plan(1), "docker"); got[0] != "linux-docker-22222" {
		t.Errorf("after the report leased %v", got)
	}
}

// A bad image is no job: the claim keeps what it has. Whatever else a runner failed of, its container may have written.
func TestAFailureBeforeTheStartSpoilsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.EphemeralRunnerStatus)
		want   bool
	}{
		"its image is not there":      {func(s *v1alpha1.EphemeralRunnerStatus) { s.Reason = "ImagePullBackOff" }, true},
		"nobody says that":            {func(s *v1alpha1.EphemeralRunnerStatus) { s.Conditions = nil }, false},
		"it has started":              {func(s *v1alpha1.EphemeralRunnerStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		"it exited":                   {func(s *v1alpha1.EphemeralRunnerStatus) { s.Reason = v1alpha1.ReasonRunnerExitedWithoutJob }, false},
		"its pod is kept":             {func(s *v1alpha1.EphemeralRunnerStatus) { s.Reason = v1alpha1.ReasonPodTerminating }, false},
		"its claim could not go":      {func(s *v1alpha1.EphemeralRunnerStatus) { s.Reason = v1alpha1.ReasonVolumeClaimNotDeleted }, false},
		"its job's result is awaited": {func(s *v1alpha1.EphemeralRunnerStatus) { s.Reason = v1alpha1.ReasonVolumeClaimAwaited }, false},
		"it had a job":                {func(s *v1alpha1.EphemeralRunnerStatus) { s.JobID = "job" }, false},
		"its job was lost":            {func(s *v1alpha1.EphemeralRunnerStatus) { s.LostCause = v1alpha1.LostCauseUnknown }, false},
		"GitHub kept it for a job": {func(s *v1alpha1.EphemeralRunnerStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionDraining,
				Status: metav1.ConditionTrue})
		}, false},
		"it succeeded":              {func(s *v1alpha1.EphemeralRunnerStatus) { s.Phase = v1alpha1.EphemeralRunnerPhaseSucceeded }, false},
		"the end of a job was told": {func(s *v1alpha1.EphemeralRunnerStatus) { s.JobResult = "failed" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			status := &v1alpha1.EphemeralRunnerStatus{Phase: v1alpha1.EphemeralRunnerPhaseFailed,
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionPodStarted, Status: metav1.ConditionFalse}}}
			test.change(status)
			if got := volumeclaims.NeverStarted(status); got != test.want {
				t.Errorf("proved: %t", got)
			}
		})
	}
}
