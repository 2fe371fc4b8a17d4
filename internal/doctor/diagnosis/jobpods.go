package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// podRejections begins the kubelet's reasons if a pod that was bound to its node doesn't fit there.
	podRejections = "OutOf"
	// makeRoom is for job pods that don't fit.
	makeRoom = "job pods of mode kubernetes run on their runner's node: make the requests in " +
		"containerMode.kubernetesModeHookTemplate smaller, " +
		"or have the runner's own requests keep room there"
	// askScheduler is for job pods that were bound without being asked for.
	askScheduler = "; with ACTIONS_RUNNER_USE_KUBE_SCHEDULER=true in the runner's env they wait for room instead of " +
		"failing their job (docs/container-modes.md)"
	protectJobs = "add them to the template of job pods that you give in a ConfigMap of your own, or that a variable " +
		"of the runner names; without one the manager gives runners a file that has them (docs/container-modes.md)"
)

// jobPodLabels and jobPodAnnotations are those that the manager and the chart give to job pods. A key that somebody has set to another
// value is their choice.
var (
	jobPodLabels      = []string{v1alpha1.LabelScaleSetName, v1alpha1.LabelScaleSetNamespace, v1alpha1.LabelRunnerBusy}
	jobPodAnnotations = []string{v1alpha1.AnnotationDoNotDisrupt, v1alpha1.AnnotationSafeToEvict}
)

// checkJobPods reports pods of container hooks that wait, that their node rejected, or that nothing protects from
// eviction.
func checkJobPods(s set) []finding.Finding {
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
		if pod := event.InvolvedObject.Name; s.Now.Sub(lastSeen(event)) <= recently && rejectsJobPod(event) &&
			!s.HasJobPod(pod) {
			add(rejections, event.Reason, pod, event.Message)
		}
	}
	var findings []finding.Finding
	for _, reason := range slices.Sorted(maps.Keys(rejections)) {
		t := rejections[reason]
		findings = append(findings, s.ofJobPod(finding.Warning, t, reason,
			finding.Counted(t.count, "job pod was rejected by its runner's node",
				"job pods were rejected by their runners' nodes"), makeRoom+askScheduler))
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
		findings = append(findings, s.ofJobPod(finding.Problem, t, reason,
			finding.Counted(t.count, "job pod waits", "job pods wait"), fix))
	}
	return append(findings, unprotectedJobPods(s)...)
}

// rejectsJobPod reports whether an Event is the kubelet's rejection of a job pod.
func rejectsJobPod(event *corev1.Event) bool {
	pod := &event.InvolvedObject
	return pod.Kind == "Pod" && kube.IsJobPodName(pod.Name) && strings.HasPrefix(event.Reason, podRejections)
}

// ofJobPod returns a finding about the job pod that is the example: its runner's own pod may have one with the same
// reason.
func (s set) ofJobPod(severity finding.Severity, t *tally, reason, what, fix string) finding.Finding {
	return finding.Finding{Severity: severity, Object: "Pod " + s.Namespace + "/" + t.example, Reason: reason,
		Message: fmt.Sprintf("%s, for example %s: %s", what, t.example, cmp.Or(t.message, reason)), Fix: fix}
}

// unprotectedJobPods reports job pods that a drain or a node autoscaler may end.
func unprotectedJobPods(s set) []finding.Finding {
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
	if count == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, "JobPodsUnprotected",
		fmt.Sprintf("%s nothing that keeps a drain or a node autoscaler from ending their jobs: no %s",
			finding.Counted(count, "job pod has", "job pods have"),
			strings.Join(slices.Sorted(maps.Keys(missing)), ", ")),
		protectJobs)}
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

// A warning is reported until it is older than recently.
const recently = 15 * time.Minute

// checkEvents reports recent warnings that no other finding covers: what went wrong lately and may happen again.
func checkEvents(s set) []finding.Finding {
	reasons, latest := map[string]*tally{}, map[string]time.Time{}
	for i := range s.Warnings {
		event := &s.Warnings[i]
		at := lastSeen(event)
		if s.Now.Sub(at) > recently || rejectsJobPod(event) {
			continue
		}
		add(reasons, event.Reason, event.InvolvedObject.Kind+" "+event.InvolvedObject.Name, event.Message)
		if at.After(latest[event.Reason]) {
			latest[event.Reason] = at
			reasons[event.Reason].example, reasons[event.Reason].message = event.InvolvedObject.Kind+" "+
				event.InvolvedObject.Name, event.Message
		}
	}
	var findings []finding.Finding
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t := reasons[reason]
		findings = append(findings, s.finding(finding.Info, reason,
			fmt.Sprintf("%s in the last %d minutes, the last %s ago on %s: %s",
				finding.Counted(t.count, "warning", "warnings"), int(recently.Minutes()),
				s.Now.Sub(latest[reason]).Round(time.Second), t.example, t.message),
			"nothing, unless it happens again; run kubectl describe on the object to see its Events"))
	}
	return findings
}

// lastSeen returns the time at which an Event last occurred. Reporters fill different fields.
func lastSeen(event *corev1.Event) time.Time {
	last := event.LastTimestamp.Time
	if event.EventTime.After(last) {
		last = event.EventTime.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	return last
}
