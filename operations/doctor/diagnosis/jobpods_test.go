package diagnosis_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

const jobRunner = "linux-abcde-runner-fghij"

// hooked gives the set runners that run jobs in pods of their own, with a template of these pods or without.
func hooked(template bool) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		runner := corev1.Container{Name: "runner",
			Env: []corev1.EnvVar{{Name: "ACTIONS_RUNNER_CONTAINER_HOOKS", Value: "/home/runner/k8s/index.js"}}}
		if template {
			runner.Env = append(runner.Env, corev1.EnvVar{Name: "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE",
				Value: "/template.yaml"})
		}
		s.Sets[0].Spec.Template.Spec.Containers = []corev1.Container{runner}
		s.Sets[0].RunnerSets[0].Name, s.Sets[0].Now = "linux-abcde", time.Now()
	}
}

// jobPod returns a pod as the hooks make it, with what the chart adds if it is protected.
func jobPod(suffix string, protected bool, status corev1.PodStatus) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: jobRunner + suffix,
		Labels: map[string]string{"runner-pod": jobRunner}}, Status: status}
	if protected {
		for _, key := range []string{"actions.github.com/scale-set-name", "actions.github.com/scale-set-namespace",
			"actions.github.com/runner-busy"} {
			pod.Labels[key] = "linux"
		}
		pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "2h",
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
	}
	return pod
}

// plain takes the annotations off it.
func plain(pod corev1.Pod) corev1.Pod {
	pod.Annotations = nil
	return pod
}

// ofStep makes it the pod of a Job, which has what the template says but not the label of the hooks.
func ofStep(pod corev1.Pod) corev1.Pod {
	delete(pod.Labels, "runner-pod")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job",
		Name: jobRunner + "-step-01234567", Controller: new(true)}}
	return pod
}

func TestJobPods(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	unschedulable := corev1.PodStatus{Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", Message: "Insufficient cpu"}}}
	creating := corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}}
	for title, test := range map[string]struct {
		template bool
		hooks    string // the folder of the runner's hooks, if it isn't k8s
		flag     string // of the manager
		pods     []corev1.Pod
		want     string // severity, reason and object of each finding
		fix      string
	}{
		"protected, running": {template: true, pods: []corev1.Pod{jobPod("-workflow", true, running), jobPod("-step-12345678", true, creating)}},
		"rejected for want of CPU": {template: true, pods: []corev1.Pod{jobPod("-workflow", true,
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "requested: 3000"})},
			want: "warning OutOfcpu Pod runners/" + jobRunner + "-workflow",
			fix:  "ACTIONS_RUNNER_USE_KUBE_SCHEDULER=true"},
		"rejected for want of memory": {template: true, pods: []corev1.Pod{ofStep(jobPod("-step-01234567-abcde", true,
			corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfmemory"}))},
			want: "warning OutOfmemory Pod runners/" + jobRunner + "-step-01234567-abcde",
			fix:  "kubernetesModeHookTemplate"},
		"waits for its node": {template: true, pods: []corev1.Pod{jobPod("-workflow", true, unschedulable)},
			want: "problem Unschedulable Pod runners/" + jobRunner + "-workflow", fix: "runner's node"},
		"waits for any node": {template: true, hooks: "k8s-novolume",
			pods: []corev1.Pod{jobPod("-workflow", true, unschedulable)},
			want: "problem Unschedulable Pod runners/" + jobRunner + "-workflow", fix: "add nodes"},
		"unprotected": {template: true, pods: []corev1.Pod{jobPod("-workflow", false, running)},
			want: "warning JobPodsUnprotected AutoscalingRunnerSet runners/linux", fix: "a ConfigMap of your own"},
		"without annotations, which the manager leaves to templates": {template: true, flag: "--job-pod-protection=false",
			pods: []corev1.Pod{plain(jobPod("-workflow", true, running))}},
		"without annotations, which come with metadata": {template: true, flag: "--job-pod-metadata=false",
			pods: []corev1.Pod{plain(jobPod("-workflow", true, running))}},
		"without annotations": {template: true, flag: "--job-pod-protection=true",
			pods: []corev1.Pod{plain(jobPod("-workflow", true, running))},
			want: "warning JobPodsUnprotected AutoscalingRunnerSet runners/linux"},
		"without labels, which no flag takes away": {template: true, flag: "--job-pod-protection=false",
			pods: []corev1.Pod{jobPod("-workflow", false, running)},
			want: "warning JobPodsUnprotected AutoscalingRunnerSet runners/linux"},
		"has no template yet": {},
		"of another runner set": {template: true, pods: []corev1.Pod{func() corev1.Pod {
			p := jobPod("-workflow", false, unschedulable)
			p.Labels["runner-pod"] = "linux-large-abcde-runner-fghij"
			return p
		}()}},
	} {
		t.Run(title, func(t *testing.T) {
			snapshot := healthy(hooked(test.template))
			snapshot.Managers[0].Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{test.flag}}}
			set := &snapshot.Sets[0]
			set.Spec.Template.Spec.Containers[0].Env[0].Value = "/home/runner/" + cmp.Or(test.hooks, "k8s") +
				"/index.js"
			for _, pod := range test.pods { // as gathered
				if pod.Labels["actions.github.com/scale-set-name"] == set.Name {
					set.Pods = append(set.Pods, pod)
				}
			}
			set.SortPods(test.pods)
			findings := diagnosis.Diagnose(snapshot)
			if test.want == "" {
				if len(findings) > 0 {
					t.Errorf("found %+v", findings)
				}
				return
			}
			if len(findings) != 1 {
				t.Fatalf("found %+v, want 1", findings)
			}
			f := findings[0]
			if got := strings.Join([]string{string(f.Severity), f.Reason, f.Object}, " "); got != test.want ||
				!strings.Contains(f.Fix, test.fix) {
				t.Errorf("found %s: %s; to do: %s", got, f.Message, f.Fix)
			}
		})
	}
}

// The hooks have deleted the rejected pod by the time that anybody looks.
func TestRejectedJobPodIsKnownByItsEvent(t *testing.T) {
	event := corev1.Event{Reason: "OutOfmemory", Message: "Node didn't have enough resource: memory",
		LastTimestamp:  metav1.Now(),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: jobRunner + "-workflow"}}
	findings := diagnosis.Diagnose(healthy(hooked(true), func(s *snapshot.Snapshot) {
		s.Sets[0].Warnings = []corev1.Event{event}
	}))
	if len(findings) != 1 || findings[0].Reason != "OutOfmemory" || findings[0].Severity != finding.Warning ||
		!strings.Contains(findings[0].Message, "1 job pod was rejected") {
		t.Errorf("found %+v", findings)
	}
}

// The usual image ends with code 0, too, if it can't write its work folder.
func TestAdviceNamesTheGroupOfTheWorkVolume(t *testing.T) {
	snapshot := healthy(hooked(true), condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue,
		v1alpha1.ReasonRunnerExitedWithoutJob))
	pod := &snapshot.Sets[0].Spec.Template.Spec
	pod.Volumes = []corev1.Volume{{Name: "work",
		VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/home/runner/_work"}}
	for _, group := range []*int64{nil, new(int64(1001))} {
		pod.SecurityContext = &corev1.PodSecurityContext{FSGroup: group}
		if findings := diagnosis.Diagnose(snapshot); len(findings) != 1 ||
			strings.Contains(findings[0].Fix, "fsGroup") != (group == nil) {
			t.Errorf("with fsGroup %v: %+v", group, findings)
		}
	}
}

// Whoever gives jobs time after a notice is told where they don't get it.
func TestGracePeriodThatJobsDoNotGet(t *testing.T) {
	hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}
	for title, test := range map[string]struct {
		grace   time.Duration
		runner  *corev1.Lifecycle
		seconds int64 // of a job pod, 0 without one
		want    string
	}{
		"none wanted":           {0, hook, 30, ""},
		"given":                 {time.Minute, nil, 70, ""},
		"without job pods":      {time.Minute, nil, 0, ""},
		"a hook of his own":     {time.Minute, hook, 0, "needs the preStop hook"},
		"a template of his own": {time.Minute, nil, 30, "jobGracePeriod is 1m0s, but 1 job pod has less"},
	} {
		t.Run(title, func(t *testing.T) {
			findings := diagnosis.Diagnose(healthy(func(s *snapshot.Snapshot) {
				set := &s.Sets[0]
				set.Spec.JobGracePeriod = &metav1.Duration{Duration: test.grace}
				set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "runner", Lifecycle: test.runner}}
				if test.seconds != 0 {
					set.JobPods = []corev1.Pod{{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &test.seconds}}}
				}
			}))
			at := slices.IndexFunc(findings, func(f finding.Finding) bool { return f.Reason == "JobGracePeriodUnused" })
			switch {
			case (at >= 0) != (test.want != ""):
				t.Errorf("found %+v", findings)
			case at >= 0 && !strings.Contains(findings[at].Message, test.want):
				t.Errorf("found %q, want %q", findings[at].Message, test.want)
			}
		})
	}
}
