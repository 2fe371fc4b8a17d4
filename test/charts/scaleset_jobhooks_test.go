package charts

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const (
	startedHook   = "ACTIONS_RUNNER_HOOK_JOB_STARTED"
	completedHook = "ACTIONS_RUNNER_HOOK_JOB_COMPLETED"
)

// jobHooks returns our hooks that a runner calls, and whether they are mounted.
func jobHooks(pod corev1.PodSpec) (called []string, mounted bool) {
	runner := pod.Containers[slices.IndexFunc(pod.Containers, func(c corev1.Container) bool {
		return c.Name == "runner"
	})]
	for _, variable := range runner.Env {
		if strings.HasPrefix(variable.Value, "/opt/job-hooks/") {
			called = append(called, variable.Name)
		}
	}
	return called, slices.ContainsFunc(runner.VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.Name == "job-hooks" && m.ReadOnly }) &&
		slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "job-hooks" })
}

// A user's own hooks stay; in every mode the runner gets ours unless the user has one for the same moment.
func TestJobHooks(t *testing.T) {
	t.Parallel()
	own := func(variables ...string) string {
		values := "template: {spec: {containers: [{name: runner, env: ["
		for _, variable := range variables {
			values += "{name: " + variable + ", value: /mine.sh},"
		}
		return values + "]}]}}"
	}
	for title, test := range map[string]struct {
		values []string
		called []string
	}{
		"off":               {nil, nil},
		"false":             {[]string{"feedback: {jobLog: false, debugHold: 0s}"}, nil},
		"null":              {[]string{"feedback: null"}, nil},
		"on":                {[]string{"feedback: {jobLog: true}"}, []string{startedHook, completedHook}},
		"dind":              {[]string{"feedback: {jobLog: true}", mode("dind")}, []string{startedHook, completedHook}},
		"kubernetes":        {[]string{"feedback: {jobLog: true}", hookTemplate}, []string{startedHook, completedHook}},
		"a hold alone":      {[]string{"feedback: {debugHold: 15m}"}, []string{completedHook}},
		"the user's start":  {[]string{"feedback: {jobLog: true}", own(startedHook)}, []string{completedHook}},
		"the user's end":    {[]string{"feedback: {jobLog: true, debugHold: 15m}", own(completedHook)}, []string{startedHook}},
		"the user's hooks":  {[]string{"feedback: {jobLog: true, debugHold: 15m}", own(startedHook, completedHook)}, nil},
		"a hold by no hook": {[]string{"feedback: {debugHold: 15m}", own(completedHook)}, nil},
	} {
		called, mounted := jobHooks(runnerPod(t, test.values...))
		if !slices.Equal(called, test.called) || mounted != (len(test.called) > 0) {
			t.Errorf("%s: hooks %v, mounted %t; want %v", title, called, mounted, test.called)
		}
	}
}

func TestJobHooksAreInAConfigMap(t *testing.T) {
	t.Parallel()
	for hold, seconds := range map[string]string{"15m": "900", "1h": "3600", "59m60s": "3600", "90s": "90"} {
		config := one[corev1.ConfigMap](t, renderSet(t, scaleSet, "feedback: {jobLog: true, debugHold: "+hold+"}"),
			"job_hooks.yaml")
		check(t, "name", config.Name, "test-runners-gha-rs-job-hooks")
		check(t, "seconds of "+hold, config.Data["debug-hold"], seconds)
		check(t, "log", config.Data["job-log"], "true")
		for _, script := range []string{"started.sh", "completed.sh", "common.sh", "usage.sh"} {
			if !strings.HasPrefix(config.Data[script], "# shellcheck shell=sh") {
				t.Errorf("%s begins with %.40q", script, config.Data[script])
			}
		}
	}
}

func TestJobHooksRefused(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"feedback: {debugHold: 61m}":                                        "feedback.debugHold is 61m, but a job's end is held for an hour at most: use 1h or less",
		"feedback: {debugHold: 1h1s}":                                       "an hour at most",
		"feedback: {jobLog: true}\ntemplate: {spec: {os: {name: windows}}}": "need a POSIX shell",
	} {
		if got := refusal(t, scaleSet, minimal, values); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", values, got, want)
		}
	}
}
