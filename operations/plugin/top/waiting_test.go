package top_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/plugin/top"
)

// waitingFor returns a runner set whose listener knows so many jobs that wait, the youngest first.
func waitingFor(namespace, set string, jobs int) *v1alpha1.EphemeralRunnerSet {
	runnerSet := &v1alpha1.EphemeralRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set + "-x7k2p",
		Labels: map[string]string{v1alpha1.LabelScaleSetName: set, v1alpha1.LabelScaleSetNamespace: namespace}}}
	runnerSet.Status.Listener = &v1alpha1.ListenerStatus{}
	for i := range jobs {
		runnerSet.Status.Listener.Waiting = append(runnerSet.Status.Listener.Waiting, v1alpha1.WaitingJob{
			Repository: "acme/app", RunID: 41, JobID: fmt.Sprint(i), Name: fmt.Sprintf("%s \x1b[2J%d", set, i),
			AssignedAt: metav1.NewTime(time.Now().Add(-time.Hour - time.Duration(i)*time.Minute))})
	}
	return runnerSet
}

// The jobs that have waited longest are named below the sets, with what limits theirs; not more of a set than wait.
func TestJobsThatWaitAreNamed(t *testing.T) {
	api := server(interceptor.Funcs{}, setWith("b", "linux", 4, 16, atMost(4), limited("Maximum", "MaxRunnersReached")),
		setWith("a", "windows", 3, 4), waitingFor("b", "linux", 9), waitingFor("a", "windows", 3))
	var text bytes.Buffer
	if err := top.Run(t.Context(), api, top.Options{Once: true, Format: output.Text}, &text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if len(lines) != 3+2+10 || lines[3] != "" || !strings.HasPrefix(lines[4], "WAITS") ||
		lines[5] != "1h08m  41   b/linux    at maxRunners           acme/app: linux  [2J8" ||
		!strings.Contains(text.String(), "a/windows  a runner is on its way  acme/app: windows  [2J2") ||
		strings.Contains(text.String(), "windows  [2J1") {
		t.Errorf("%d lines:\n%s", len(lines), text.String())
	}
	text.Reset()
	var read struct {
		Waiting []top.Waiting `json:"waiting"`
	}
	err := top.Run(t.Context(), api, top.Options{Once: true, Format: output.JSON}, &text)
	if err != nil || json.Unmarshal(text.Bytes(), &read) != nil || len(read.Waiting) != 10 || read.Waiting[0].Run != 41 {
		t.Errorf("%v: %s", err, text.String())
	}
}
