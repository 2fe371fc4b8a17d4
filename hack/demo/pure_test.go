package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/operations/plugin/ledger"
)

func TestPercentileIsNearestRank(t *testing.T) {
	ten := []time.Duration{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for _, each := range []struct {
		values []time.Duration
		share  float64
		want   time.Duration
	}{
		{nil, 0.5, 0}, {ten[:1], 0.5, 10}, {ten, 0.5, 5}, {ten, 0.95, 10}, {ten, 0.1, 1}, {ten, 0, 1}, {ten, 1, 10},
	} {
		if got := percentile(each.values, each.share); got != each.want {
			t.Errorf("percentile(%v, %v) = %d, want %d", each.values, each.share, got, each.want)
		}
	}
	if ten[0] != 10 {
		t.Error("the caller's slice was sorted")
	}
}

func TestDurationsSpreadFromShortestToLongest(t *testing.T) {
	got := durations(jobCount)
	if len(got) != jobCount || time.Duration(got[0]) != shortestJob || time.Duration(got[jobCount-1]) != longestJob {
		t.Errorf("durations are %v", got)
	}
	if one := durations(1); len(one) != 1 || time.Duration(one[0]) != shortestJob {
		t.Errorf("duration of a single job is %v", one)
	}
}

// The summary has the waits of all jobs by phase, and what became of them; a phase that nobody knows has no line.
func TestTheSummaryIsTheLedgers(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	job := func(wait time.Duration, result, cause string) ledger.Job {
		return ledger.Job{Queued: noon, Assigned: noon.Add(time.Second), Started: noon.Add(wait),
			Finished: noon.Add(time.Hour), Result: result, LostCause: cause}
	}
	got := pastOf([]ledger.Job{job(3*time.Second, "succeeded", ""), job(5*time.Second, "succeeded", ""),
		job(9*time.Second, "Unknown", "Evicted"), {Queued: noon}})
	want := []string{
		"",
		"  the ledger knows 4 jobs of 2 to 15 s: 1 Unknown, 2 succeeded; lost 1 Evicted",
		"  waited for a runner      p50   5 s   p95   9 s",
		"    until assigned         p50   1 s   p95   1 s",
		"    until started          p50   4 s   p95   8 s",
	}
	if diff := cmp.Diff(want, got.lines()); diff != "" || got.ended != 3 {
		t.Errorf("%d ended (-want +got):\n%s", got.ended, diff)
	}
	if lines := pastOf(nil).lines(); lines[1] != "  the ledger knows 0 jobs of 2 to 15 s: none; lost none" {
		t.Errorf("without jobs: %q", lines)
	}
}

func TestCountJobsFoldsBothFlows(t *testing.T) {
	got := countJobs(map[fakegithub.JobState]int{"queued": 1, "acquired": 2, "assigned": 3, "running": 4,
		"completed": 5})
	want := counts{queued: 1, assigned: 5, running: 4, done: 5}
	if got != want {
		t.Errorf("counts are %+v, want %+v", got, want)
	}
}

func TestCountPodsLeavesOutWhatIsNoLiveRunner(t *testing.T) {
	pod := func(phase corev1.PodPhase, runner, deleted bool) corev1.Pod {
		made := corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if runner {
			made.Labels = map[string]string{v1alpha1.LabelRunner: "True"}
		}
		if deleted {
			made.DeletionTimestamp = &metav1.Time{}
		}
		return made
	}
	pending, up := countPods([]corev1.Pod{
		pod(corev1.PodPending, true, false), pod("", true, false), pod(corev1.PodRunning, true, false),
		pod(corev1.PodRunning, false, false), pod(corev1.PodRunning, true, true), pod(corev1.PodSucceeded, true, false),
	})
	if pending != 2 || up != 1 {
		t.Errorf("%d pending and %d running, want 2 and 1", pending, up)
	}
}

func TestBadJobsNamesResultAndRunner(t *testing.T) {
	got := badJobs([]fakegithub.Job{
		{RequestID: 1, State: "completed", Result: "succeeded"}, {RequestID: 2, State: "completed", Result: "failed", Runner: "r"},
	})
	if diff := cmp.Diff([]string{`job 2 completed "failed" on runner "r"`}, got); diff != "" {
		t.Errorf("bad jobs (-want +got):\n%s", diff)
	}
}

func TestWhatIsLoadedOntoNodesIsNotPulled(t *testing.T) {
	for image, want := range map[string]string{
		"localhost/harrier/gha-runner-scale-set-controller:dev": "Never",
		"localhost:5000/team/harrier:test":                      "Always",
		"registry.example.com/localhost/harrier:test":           "Always",
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s is pulled %s, want %s", image, got, want)
		}
	}
}
