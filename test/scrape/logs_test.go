package scrape

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/harrier-ci/harrier/internal/testkube"
	"github.com/harrier-ci/harrier/test/rig"
)

// logged are the lines of a program.
type logged []map[string]any

// loggingRig has both programs write JSON at debug, which includes the lines at info.
func loggingRig(t *testing.T) *rig.Rig {
	t.Helper()
	return rig.Start(t, testkube.Shared(t), rig.Options{ControllerValues: rig.Values{"flags": rig.Values{
		"logLevel": "debug", "logFormat": "json", "healthProbeBindAddress": ":8081",
	}}})
}

func parse(t *testing.T, log string) (lines logged) {
	t.Helper()
	for text := range strings.Lines(log) {
		if !strings.HasSuffix(text, "\n") {
			continue // it is being written
		}
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("no JSON: %s", text)
			continue
		}
		for _, key := range []string{"ts", "severity", "message"} {
			if line[key] == nil {
				t.Errorf("no %s: %s", key, text)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// with returns the lines that have these values.
func (l logged) with(values map[string]any) (found logged) {
	for _, line := range l {
		fits := true
		for key, value := range values {
			fits = fits && line[key] == value
		}
		if fits {
			found = append(found, line)
		}
	}
	return found
}

// A burst costs few lines at info; and from a job's id, its runner or its scale set the lines lead to the others, and
// to the call that GitHub's support would ask about.
func TestLogsOfABurst(t *testing.T) {
	const burst, linesPerRunner = 30, 3
	r := loggingRig(t)
	quiet := len(parse(t, r.ManagerLog()).with(info)) + len(parse(t, r.ListenerLog()).with(info))
	ids := r.QueueJobs(burst, rig.Held)
	NewWithT(t).Eventually(func() int { return r.GitHub.Snapshot().JobsByState["running"] }).WithTimeout(rig.Patience).
		Should(Equal(burst), "running jobs")
	// All at the same time: a change of the desired number of runners is logged. If a busy machine lets jobs end one
	// after the other, each changes it.
	r.EndJobs(ids)
	r.AwaitQuiet()
	// A runner goes when its container has ended. The listener may hear of the job's end later.
	completed := func() int { return strings.Count(r.ListenerLog(), `"message":"Job completed"`) }
	NewWithT(t).Eventually(completed).WithTimeout(rig.Patience).
		Should(BeNumerically(">=", burst), "jobs that the listener logged as completed")
	manager, listener := parse(t, r.ManagerLog()), parse(t, r.ListenerLog())
	if got := len(manager.with(info)) + len(listener.with(info)) - quiet; got > burst*linesPerRunner {
		t.Errorf("%d lines at info for %d runners, want at most %d each:\n%v\n%v",
			got, burst, linesPerRunner, manager.with(info), listener.with(info))
	}
	scaleSet := r.RunnerNamespace + "/" + rig.DefaultSet
	for _, line := range listener {
		if line["scaleSet"] != scaleSet {
			t.Errorf("a line of the listener without its scale set: %v", line)
		}
	}
	checkAboutRunners(t, manager, scaleSet)
	jobs := listener.with(map[string]any{"message": "Job completed", "result": "succeeded"})
	if len(jobs) != burst {
		t.Errorf("%d jobs were logged as completed, want %d", len(jobs), burst)
	}
	for _, job := range jobs {
		checkTrail(t, job, manager, listener)
	}
}

var info = map[string]any{"severity": "info"}

// checkAboutRunners checks that every line of the manager about a runner names it and its scale set.
func checkAboutRunners(t *testing.T, manager logged, scaleSet string) {
	t.Helper()
	for _, line := range manager {
		about := (line["controller"] == "ephemeralrunner" && line["reconcileID"] != nil) ||
			line["endpoint"] == "generate_jit_config"
		if about && (line["scaleSet"] != scaleSet || line["name"] == nil || line["namespace"] == nil) {
			t.Errorf("a line about a runner that does not say which: %v", line)
		}
	}
}

// checkTrail goes from a completed job to its start, and to the registration of its runner. The start has no line if
// one message reported both.
func checkTrail(t *testing.T, job map[string]any, manager, listener logged) {
	t.Helper()
	starts := listener.with(map[string]any{"message": "Job started", "jobID": job["jobID"], "runner": job["runner"]})
	if len(starts) > 1 || fmt.Sprint(job["repository"]) == "" || job["workflowRunID"] == nil {
		t.Errorf("job %v: started in %d lines, want one at most", job, len(starts))
	}
	registered := manager.with(map[string]any{"endpoint": "generate_jit_config", "name": job["runner"]})
	if len(registered) != 1 || registered[0]["activityID"] == nil || registered[0]["githubRequestID"] == nil ||
		registered[0]["severity"] != "debug" {
		t.Errorf("runner %v: lines %v about its registration, want one with GitHub's ids", job["runner"], registered)
	}
}
