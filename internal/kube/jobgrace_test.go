package kube_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/internal/kube"
)

func isDaemon(c *corev1.Container) bool { return c.Name == "dind" }

// graced returns the spec of a pod whose job may go on for that long.
func graced(job time.Duration, change ...func(*corev1.PodSpec)) *corev1.PodSpec {
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
		Containers:     []corev1.Container{{Name: "runner"}, {Name: "dind"}, {Name: "shipper"}},
	}
	for _, c := range change {
		c(spec)
	}
	kube.GiveJobGrace(spec, job, isDaemon)
	return spec
}

// The runner waits for its job before it is told to end, its daemon waits as long, and the pod has ten seconds more. What
// needs no waiting gets none.
func TestGracePeriodOfJobs(t *testing.T) {
	spec := graced(110*time.Second, func(s *corev1.PodSpec) {
		s.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}
	})
	runner, dind, shipper := spec.Containers[0], spec.Containers[1], spec.Containers[2]
	if *spec.TerminationGracePeriodSeconds != 120 || spec.InitContainers[0].Lifecycle != nil || shipper.Lifecycle != nil {
		t.Errorf("grace period %d, sidecar %v, shipper %v", *spec.TerminationGracePeriodSeconds,
			spec.InitContainers[0].Lifecycle, shipper.Lifecycle)
	}
	if hook := runner.Lifecycle.PreStop.Exec; hook == nil || hook.Command[len(hook.Command)-1] != "110" ||
		runner.Lifecycle.PostStart == nil {
		t.Errorf("the runner has %+v", runner.Lifecycle)
	}
	if hook := dind.Lifecycle.PreStop.Sleep; hook == nil || hook.Seconds != 110 {
		t.Errorf("the daemon has %+v", dind.Lifecycle)
	}
	longer := graced(time.Minute, func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(3600)) })
	if *longer.TerminationGracePeriodSeconds != 3600 {
		t.Errorf("a greater grace period becomes %d", *longer.TerminationGracePeriodSeconds)
	}
}

// Without a grace period, or where there can be none, the pod is as the template says.
func TestNoGracePeriodOfJobs(t *testing.T) {
	own := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}
	for title, test := range map[string]struct {
		job    time.Duration
		change func(*corev1.PodSpec)
		why    bool
	}{
		"none":               {0, func(*corev1.PodSpec) {}, false},
		"less than a second": {time.Millisecond, func(*corev1.PodSpec) {}, false},
		"a hook of his own":  {time.Minute, func(s *corev1.PodSpec) { s.Containers[0].Lifecycle = own }, true},
		"Windows":            {time.Minute, func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }, true},
		"a node of Windows":  {time.Minute, func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kubernetes.io/os": "windows"} }, true},
	} {
		t.Run(title, func(t *testing.T) {
			spec := graced(test.job, test.change)
			if spec.TerminationGracePeriodSeconds != nil || spec.Containers[1].Lifecycle != nil {
				t.Errorf("the spec became %+v", spec)
			}
			if why := kube.WhyNoJobGrace(spec); (why != "") != test.why {
				t.Errorf("said: %q", why)
			}
		})
	}
}

// The script is run by a real shell. Its clock is a file that its sleep advances by a second, which also changes what
// processes there are.
func TestScriptThatWaitsForAJob(t *testing.T) {
	for title, test := range map[string]struct {
		processes string // what sleep does in second $now, in the directory of processes
		want      int    // seconds
	}{
		"idle":                              {"", 3},
		"idle, then a job within a second":  {`[ $now = 1 ] && mkdir 7 && echo Runner.Worker >7/comm`, 20},
		"a job that outlasts the time":      {`mkdir -p 7; echo Runner.Worker >7/comm`, 20},
		"a job that ends, and the listener": {`[ $now = 1 ] && mkdir 7 && echo Runner.Worker >7/comm; [ $now = 5 ] && rm -r 7`, 20},
		"other processes":                   {`mkdir -p 1 2 3; echo Runner.Listener >1/comm; echo bash >2/comm`, 3},
	} {
		t.Run(title, func(t *testing.T) {
			directory := t.TempDir()
			processes, programs := filepath.Join(directory, "proc"), filepath.Join(directory, "bin")
			clock := filepath.Join(directory, "clock")
			for _, made := range []string{processes, programs} {
				if err := os.Mkdir(made, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for name, content := range map[string]string{
				"bin/date": "#!/bin/sh\ncat " + clock + "\n",
				"bin/sleep": "#!/bin/sh\nnow=$(($(cat " + clock + ") + 1))\necho $now >" + clock + "\ncd " + processes + "\n" +
					test.processes + "\ntrue\n",
				"clock": "0\n",
			} {
				if err := os.WriteFile(filepath.Join(directory, name), []byte(content), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			command := graced(20 * time.Second).Containers[0].Lifecycle.PreStop.Exec.Command
			shell := exec.CommandContext(t.Context(), command[0], append(command[1:], processes)...)
			shell.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
			if output, err := shell.CombinedOutput(); err != nil || len(output) > 0 {
				t.Fatalf("%v: %s", err, output)
			}
			now, err := os.ReadFile(clock)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := strconv.Atoi(string(bytes.TrimSpace(now))); err != nil || got != test.want {
				t.Errorf("it took %d seconds, want %d (%v)", got, test.want, err)
			}
		})
	}
}
