package diagnosis_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// waitedFor returns a runner whose job waited that long for a node, and two seconds for the rest.
func waitedFor(name string, placing time.Duration) v1alpha1.EphemeralRunner {
	queued := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	runner := v1alpha1.EphemeralRunner{ObjectMeta: metav1.ObjectMeta{Name: name}}
	runner.Status.Phase, runner.Status.JobID = v1alpha1.EphemeralRunnerPhaseRunning, "job"
	runner.Status.Phases = &v1alpha1.RunnerPhases{
		Queued: new(metav1.NewTime(queued)), Created: new(metav1.NewTime(queued.Add(time.Second))),
		Placed:  new(metav1.NewTime(queued.Add(time.Second + placing))),
		Started: new(metav1.NewTime(queued.Add(2*time.Second + placing))),
	}
	return runner
}

func TestLongWaitsAreToldByPhase(t *testing.T) {
	ended := waitedFor("ended", time.Hour)
	ended.Status.JobResult = "succeeded"
	diagnose := func(runners ...v1alpha1.EphemeralRunner) []finding.Finding {
		return diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
			s.Sets[0].Runners = append(s.Sets[0].Runners, runners...)
		}))
	}
	if findings := diagnose(waitedFor("short", 5*time.Minute-3*time.Second), ended); len(findings) != 0 {
		t.Errorf("found %+v, want nothing", findings)
	}
	findings := diagnose(waitedFor("long", 10*time.Minute), waitedFor("shorter", 5*time.Minute), ended)
	want := "2 running jobs waited 5m0s or longer; the longest wait was 10m2s, of the job on runner long: created " +
		"1s, placed 10m0s, started 1s"
	if len(findings) != 1 || findings[0].Reason != "JobsWaitedLong" || findings[0].Message != want {
		t.Fatalf("found %+v, want JobsWaitedLong: %s", findings, want)
	}
	if !strings.HasPrefix(findings[0].Fix, "placed took longest: the cluster had no node with room") {
		t.Errorf("fix %q", findings[0].Fix)
	}
}
