package why

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/finding"
)

// Who asks about nothing is told of the jobs that have waited longest, with the limit of their scale set, and how many
// more there are; not of one that a runner has by now.
func TestTheJobsThatWaitLongest(t *testing.T) {
	longest := func(objects ...v1alpha1.WaitingJob) (string, error) {
		var text bytes.Buffer
		with := scaleSet(20, 20, objects...)
		if len(objects) > 0 {
			with[0].(*v1alpha1.AutoscalingRunnerSet).Status.AvailableJobs = 7
		}
		err := Run(context.Background(), server(nil, append(with, runnerWith(nil))...), "",
			Options{Longest: true, Everywhere: true, Format: output.Text}, &text)
		return text.String(), err
	}
	if said, err := longest(); err != nil || !strings.Contains(said, "No job is known to wait in any namespace") {
		t.Errorf("where none waits: %v: %s", err, said)
	}
	waits := []v1alpha1.WaitingJob{{Repository: "acme/app", RunID: run, JobID: job, Name: "has a runner", AssignedAt: began}}
	for i := range 25 {
		waits = append(waits, v1alpha1.WaitingJob{Repository: "acme/app", RunID: 41, JobID: fmt.Sprint("job ", i),
			Name: fmt.Sprint("shard ", i), WorkflowRef: "acme/app/.github/workflows/ci.yml@refs/heads/topic", AssignedAt: *after(i)})
	}
	said, err := longest(waits...)
	if err != nil && !errors.Is(err, finding.ErrProblems) {
		t.Fatal(err)
	}
	for _, want := range []string{"STATE", "at maxRunners", "MaxRunnersReached", "acme/app: shard 0\n", "acme/app: shard 19\n", "5 more wait",
		"ci.yml@refs/heads/topic", "GitHub keeps 7 jobs because scale set runners/linux is limited by MaxRunnersReached"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing:\n%s", want, said)
		}
	}
	if strings.Contains(said, "has a runner") || strings.Contains(said, "shard 20") ||
		strings.Index(said, "shard 1\n") > strings.Index(said, "shard 2\n") {
		t.Errorf("said:\n%s", said)
	}
}

// Of a matrix whose jobs have one name a table comes first, which tells them apart.
func TestAMatrixIsATableFirst(t *testing.T) {
	var waits []v1alpha1.WaitingJob
	for i, id := range []string{"0b0bd3c5-1", "7f00aa12-2"} {
		waits = append(waits, v1alpha1.WaitingJob{Repository: "acme/app", RunID: 41, JobID: id, Name: "e2e", AssignedAt: *after(i)})
	}
	var text bytes.Buffer
	err := Run(context.Background(), server(nil, scaleSet(20, 20, waits...)...), "41", Options{Everywhere: true, Format: output.Text}, &text)
	if err != nil && !errors.Is(err, finding.ErrProblems) {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(text.String(), "\n\n")
	for _, want := range []string{"acme/app: e2e, job 0b0bd3c5\n", "acme/app: e2e, job 7f00aa12"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in the table:\n%s", want, text.String())
		}
	}
}
