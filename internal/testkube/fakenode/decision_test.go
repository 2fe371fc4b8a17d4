package fakenode

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestRestartPauseDoublesUpToItsLimit(t *testing.T) {
	for restarts, want := range map[int32]time.Duration{1: 10 * time.Second, 2: 20 * time.Second, 5: 160 * time.Second,
		6: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := restartPause(10*time.Second, restarts); got != want {
			t.Errorf("after %d restarts: got %s, want %s", restarts, got, want)
		}
	}
}

func TestVerdictChangesAtItsThresholds(t *testing.T) {
	v := verdict{success: 2, failure: 3}
	for i, step := range []struct{ answer, changed bool }{
		{false, false}, {true, false}, {true, true}, {true, false}, // healthy from the second success in a row
		{false, false}, {false, false}, {true, false}, // two failures are one too few
		{false, false}, {false, false}, {false, true}, {false, false},
	} {
		if got := v.add(step.answer); got != step.changed {
			t.Errorf("answer %d (%t): changed is %t, want %t", i, step.answer, got, step.changed)
		}
	}
	if v.healthy {
		t.Error("the verdict is healthy after three failures")
	}
}

func waiting() corev1.ContainerStatus { return corev1.ContainerStatus{} }

func live() corev1.ContainerStatus {
	up := true
	return corev1.ContainerStatus{Started: &up, Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func exited(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func TestPhaseFollowsTheContainers(t *testing.T) {
	for name, test := range map[string]struct {
		policy              corev1.RestartPolicy
		stopped             bool
		init, sidecar, main corev1.ContainerStatus
		want                corev1.PodPhase
	}{
		"initializing":                {corev1.RestartPolicyNever, false, live(), waiting(), waiting(), corev1.PodPending},
		"init failed for good":        {corev1.RestartPolicyNever, false, exited(1), waiting(), waiting(), corev1.PodFailed},
		"init failed, to be repeated": {corev1.RestartPolicyAlways, false, exited(1), waiting(), waiting(), corev1.PodPending},
		"stopped before the start":    {corev1.RestartPolicyNever, true, waiting(), waiting(), waiting(), corev1.PodFailed},
		"running":                     {corev1.RestartPolicyNever, false, exited(0), live(), live(), corev1.PodRunning},
		"sidecar still runs":          {corev1.RestartPolicyNever, false, exited(0), live(), exited(0), corev1.PodRunning},
		"succeeded, sidecar killed":   {corev1.RestartPolicyNever, false, exited(0), exited(137), exited(0), corev1.PodSucceeded},
		"failed":                      {corev1.RestartPolicyNever, false, exited(0), exited(0), exited(7), corev1.PodFailed},
		"to be restarted":             {corev1.RestartPolicyAlways, false, exited(0), exited(0), exited(0), corev1.PodRunning},
		"deleted":                     {corev1.RestartPolicyAlways, true, exited(0), exited(0), exited(0), corev1.PodSucceeded},
		"restarted on failure only":   {corev1.RestartPolicyOnFailure, false, exited(0), exited(0), exited(0), corev1.PodSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			always := corev1.ContainerRestartPolicyAlways
			v := view{scheduled: true, stopped: test.stopped, pod: &corev1.Pod{Spec: corev1.PodSpec{
				RestartPolicy:  test.policy,
				InitContainers: []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}},
				Containers:     []corev1.Container{{Name: "main"}},
			}}, containers: map[string]corev1.ContainerStatus{"init": test.init, "sidecar": test.sidecar,
				"main": test.main}}
			if got := v.status().Phase; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestVolumesSwitchToTheirNewFiles(t *testing.T) {
	directory := t.TempDir()
	for _, files := range []map[string][]byte{
		{"a": []byte("1"), "b": []byte("1")},
		{"a": []byte("2"), "nested/c": []byte("2")},
		{},
	} {
		if err := writeAtomically(directory, files); err != nil {
			t.Fatal(err)
		}
		if difference := cmp.Diff(files, visible(t, directory)); difference != "" {
			t.Error(difference)
		}
	}
}

// visible reads the files that a program finds in a volume.
func visible(t *testing.T, directory string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"[^.]*", "[^.]*/*"} {
		paths, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				continue // a directory
			}
			name, err := filepath.Rel(directory, path)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = content
		}
	}
	return files
}
