package losses

import (
	"strings"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunnerset/roster"
	"github.com/harrier-ci/harrier/internal/feedback"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// The test stays in the package: the fake recorder of Events, behind every other door, limits no note as the API does.

// Names and results come from GitHub, messages from Kubernetes: however long, the advice is not cut off.
func TestNoteOfALostJobKeepsItsAdvice(t *testing.T) {
	long := strings.Repeat("ü%s\n", 500)
	runner := &roster.Runner{Name: strings.Repeat("r", 63), LostJob: &feedback.Lost{Cause: "NodeLost"}}
	note := func(configURL string, status *v1alpha1.EphemeralRunnerStatus) string {
		record := recordOf(runner, status, time.Now())
		return lostNote(&record, configURL)
	}
	status := v1alpha1.EphemeralRunnerStatus{JobID: long, JobDisplayName: long, JobWorkflowRef: long,
		JobRepositoryName: long, Message: long, WorkflowRunID: 9}
	if note := note("https://ghes.example.com/enterprises/acme", &status); len(note) > 1024 ||
		!strings.HasSuffix(note, "on the page of its workflow run on GitHub") {
		t.Errorf("%d bytes: %q", len(note), note)
	}
	status.JobRepositoryName = "acme/web"
	for url, want := range map[string]string{
		"https://ghes.example.com/enterprises/acme": "https://ghes.example.com/acme/web/actions/runs/9",
		"https://github.com/acme":                   "https://github.com/acme/web/actions/runs/9",
		"::":                                        "on the page of its workflow run on GitHub",
	} {
		if note := note(url, &status); !strings.HasSuffix(note, want) {
			t.Errorf("%s: %q, want %q at its end", url, note, want)
		}
	}
	if note := note("", &v1alpha1.EphemeralRunnerStatus{}); !strings.HasPrefix(note, "a job that GitHub has not named") {
		t.Errorf("%q", note)
	}
	for _, cause := range v1alpha1.LostCauses {
		if report.KnownReason(string(cause)) != string(cause) {
			t.Errorf("cause %s is no known reason", cause)
		}
	}
}
