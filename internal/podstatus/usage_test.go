package podstatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestUsageIsReadFromATerminationMessage(t *testing.T) {
	whole := &Usage{PeakMemoryBytes: new(int64(5)), MemoryLimitBytes: new(int64(9)), OOMKills: new(int64(1))}
	for message, want := range map[string]struct {
		usage *Usage
		rest  string
	}{
		"":           {},
		"no space\n": {nil, "no space"},
		"no space\n{\"usage\":1,\"peakMemoryBytes\":5,\"memoryLimitBytes\":9,\"oomKills\":1}\n": {whole, "no space"},
		`{"usage":1,"peakMemoryBytes":"much"}`:                                                  {},
		`{"usage":2,"peakMemoryBytes":5}`: {nil,
			`{"usage":2,"peakMemoryBytes":5}`},
	} {
		usage, rest := UsageIn(message)
		if diff := cmp.Diff(want.usage, usage); diff != "" || rest != want.rest {
			t.Errorf("%q: rest %q, want %q; usage (-want +got):\n%s", message, rest, want.rest, diff)
		}
	}
}

// What the hook of jobLog leaves is not why a container failed.
func TestUsageIsNoReasonForAFailure(t *testing.T) {
	s := terminated(&corev1.Pod{}, "runner",
		&corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "{\"usage\":1,\"oomKills\":0}\n"})
	if want := "the runner container exited with code 3"; s.Message != want {
		t.Errorf("message %q, want %q", s.Message, want)
	}
}
