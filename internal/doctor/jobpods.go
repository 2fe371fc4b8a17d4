package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// podRejections is what the kubelet's reasons begin with if a pod that was bound to its node doesn't fit there.
	podRejections = "OutOf"
	// makeRoom is for job pods that don't fit.
	makeRoom = "job pods of mode kubernetes run on their runner's node: make the requests in containerMode.kubernetesModeHookTemplate smaller, " +
		"or have the runner's own requests keep room there"
	// askScheduler is for job pods that were bound without being asked for.
	askScheduler = "; with ACTIONS_RUNNER_USE_KUBE_SCHEDULER=true in the runner's env they wait for room instead of failing their job (docs/container-modes.md)"
	protectJobs  = "upgrade the scale set's chart, which adds them to kubernetesModeHookTemplate; a ConfigMap of your own needs them, too (docs/container-modes.md)"
)

// jobPodLabels and jobPodAnnotations are what the chart gives to job pods. A key that somebody has set to another value is
// their choice.
var jobPodLabels, jobPodAnnotations = []string{v1alpha1.LabelScaleSetName, v1alpha1.LabelScaleSetNamespace, v1alpha1.LabelRunnerBusy},
	[]string{v1alpha1.AnnotationDoNotDisrupt, v1alpha1.AnnotationSafeToEvict}

// checkJobPods reports pods of container hooks that wait, that their node rejected, or that nothing protects from eviction.
func checkJobPods(s *Set) []Finding {
	waits, rejections := map[string]*tally{}, map[string]*tally{}
	for i := range s.JobPods {
		pod := &s.JobPods[i]
		if pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(pod.Status.Reason, podRejections) {
			add(rejections, pod.Status.Reason, pod.Name, pod.Status.Message)
		} else if reason, message := pendingReason(pod); reason != "" && !passing(reason) {
			add(waits, reason, pod.Name, message)
		}
	}
	// The hooks delete a rejected pod within seconds; the kubelet's Event stays.
	for i := range s.Warnings {
		event := &s.Warnings[i]
		if pod := event.InvolvedObject.Name; s.Now.Sub(lastSeen(event)) <= recently && rejectsJobPod(event) && !s.hasJobPod(pod) {
			add(rejections, event.Reason, pod, event.Message)
		}
	}
	var findings []Finding
	for _, reason := range slices.Sorted(maps.Keys(rejections)) {
		t := rejections[reason]
		findings = append(findings, s.ofJobPod(Warning, t, reason, counted(t.count, "job pod was rejected by its runner's node", "job pods were rejected by their runners' nodes"), makeRoom+askScheduler))
	}
	for _, reason := range slices.Sorted(maps.Keys(waits)) {
		t, fix := waits[reason], fixOfPod(reason)
		hooks, _ := kube.RunnerEnv(&s.Spec.Template.Spec, kube.EnvContainerHooks)
		switch {
		case reason != corev1.PodReasonUnschedulable:
		case strings.Contains(hooks, "novolume"): // these may run on any node
			fix = "add nodes, or make the requests in containerMode.kubernetesModeHookTemplate smaller"
		default:
			fix = makeRoom
		}
		findings = append(findings, s.ofJobPod(Problem, t, reason, counted(t.count, "job pod waits", "job pods wait"), fix))
	}
	return append(findings, unprotectedJobPods(s)...)
}

// rejectsJobPod reports whether an Event is the kubelet's rejection of a job pod.
func rejectsJobPod(event *corev1.Event) bool {
	pod := &event.InvolvedObject
	return pod.Kind == "Pod" && kube.IsJobPodName(pod.Name) && strings.HasPrefix(event.Reason, podRejections)
}

// ofJobPod returns a finding about the job pod that is the example: its runner's own pod may have one with the same reason.
func (s *Set) ofJobPod(severity Severity, t *tally, reason, what, fix string) Finding {
	return Finding{Severity: severity, Object: "Pod " + s.Namespace + "/" + t.example, Reason: reason,
		Message: fmt.Sprintf("%s, for example %s: %s", what, t.example, cmp.Or(t.message, reason)), Fix: fix}
}

func (s *Set) hasJobPod(name string) bool {
	return slices.ContainsFunc(s.JobPods, func(p corev1.Pod) bool { return p.Name == name })
}

// unprotectedJobPods reports job pods that a drain or a node autoscaler may end, and sets whose job pods will be such.
func unprotectedJobPods(s *Set) []Finding {
	missing, count := map[string]bool{}, 0
	for i := range s.JobPods {
		lacks := lacking(s.JobPods[i].Labels, jobPodLabels)
		lacks = append(lacks, lacking(s.JobPods[i].Annotations, jobPodAnnotations)...)
		for _, key := range lacks {
			missing[key] = true
		}
		if len(lacks) > 0 {
			count++
		}
	}
	_, template := kube.RunnerEnv(&s.Spec.Template.Spec, kube.EnvHookTemplate)
	switch {
	case count > 0:
		return []Finding{s.finding(Warning, "JobPodsUnprotected", fmt.Sprintf("%s nothing that keeps a drain or a node autoscaler from ending their jobs: no %s",
			counted(count, "job pod has", "job pods have"), strings.Join(slices.Sorted(maps.Keys(missing)), ", ")), protectJobs)}
	case s.usesContainerHooks() && !template:
		return []Finding{s.finding(Warning, "JobPodsUnprotected", "job pods have no template, so nothing keeps a drain or a node autoscaler from ending their jobs", protectJobs)}
	}
	return nil
}

// usesContainerHooks reports whether the set's runners run jobs in pods of their own.
func (s *Set) usesContainerHooks() bool {
	_, uses := kube.RunnerEnv(&s.Spec.Template.Spec, kube.EnvContainerHooks)
	return uses
}

// lacking returns the keys that a map doesn't have.
func lacking(of map[string]string, keys []string) (lacks []string) {
	for _, key := range keys {
		if _, has := of[key]; !has {
			lacks = append(lacks, key)
		}
	}
	return lacks
}
