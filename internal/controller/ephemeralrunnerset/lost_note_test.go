package ephemeralrunnerset

import (
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube/report"
)

// The test stays in the package: the fake recorder of Events, behind every other door, limits no note as the API does.

// Names and results come from GitHub, messages from Kubernetes: however long, the advice is not cut off.
func TestNoteOfALostJobKeepsItsAdvice(t *testing.T) {
	long := strings.Repeat("ü%s\n", 500)
	runner := &v1alpha1.EphemeralRunner{}
	runner.Name, runner.Spec.GitHubConfigUrl = strings.Repeat("r", 63), "https://ghes.example.com/enterprises/acme"
	runner.Status = v1alpha1.EphemeralRunnerStatus{JobID: long, JobDisplayName: long, JobWorkflowRef: long,
		JobRepositoryName: long, Message: long, WorkflowRunID: 9}
	if note := lostNote(runner, "NodeLost"); len(note) > 1024 ||
		!strings.HasSuffix(note, "on the page of its workflow run on GitHub") {
		t.Errorf("%d bytes: %q", len(note), note)
	}
	for url, want := range map[string]string{
		"https://ghes.example.com/enterprises/acme": "https://ghes.example.com/acme/web/actions/runs/9",
		"https://github.com/acme":                   "https://github.com/acme/web/actions/runs/9",
		"::":                                        "on the page of its workflow run on GitHub",
	} {
		runner.Spec.GitHubConfigUrl, runner.Status.JobRepositoryName = url, "acme/web"
		if note := lostNote(runner, "NodeLost"); !strings.HasSuffix(note, want) {
			t.Errorf("%s: %q, want %q at its end", url, note, want)
		}
	}
	runner.Status = v1alpha1.EphemeralRunnerStatus{}
	if note := lostNote(runner, "Unknown"); !strings.HasPrefix(note, "a job that GitHub has not named") {
		t.Errorf("%q", note)
	}
	for _, cause := range v1alpha1.LostCauses {
		if report.KnownReason(string(cause)) != string(cause) {
			t.Errorf("cause %s is no known reason", cause)
		}
	}
}
