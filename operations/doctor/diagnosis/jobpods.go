package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/finding"
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
		_, at := kube.SaidAt(event)
		if pod := event.InvolvedObject.Name; s.Now.Sub(at) <= recently && rejectsJobPod(event) &&
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
		t, fix := waits[reason], meaning.OfRunner(reason)
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

// unprotectedJobPods reports job pods that a drain or a node autoscaler may end, unless that is the administrator's choice.
func unprotectedJobPods(s set) []finding.Finding {
	missing, count := map[string]bool{}, 0
	for i := range s.JobPods {
		lacks := lacking(s.JobPods[i].Labels, jobPodLabels)
		if !s.templateAnnotates {
			lacks = append(lacks, lacking(s.JobPods[i].Annotations, jobPodAnnotations)...)
		}
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

// leavesAnnotations reports whether the manager of a set leaves the annotations of node autoscalers to templates, by
// flags.jobPodProtection or flags.jobPodMetadata of its chart. The listener is in its manager's namespace; of a set
// without one, any manager may be the set's.
func leavesAnnotations(managers []appsv1.Deployment, listener *v1alpha1.AutoscalingListener) bool {
	return slices.ContainsFunc(managers, func(m appsv1.Deployment) bool {
		return (listener == nil || listener.Namespace == m.Namespace) &&
			slices.ContainsFunc(m.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
				return slices.ContainsFunc(c.Args, func(argument string) bool {
					flag, value, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
					on, err := strconv.ParseBool(value)
					return (flag == "job-pod-protection" || flag == "job-pod-metadata") && err == nil && !on
				})
			})
	})
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

// checkEvents reports recent warnings that none of the other findings covers: what went wrong lately and may happen
// again, by itself or because of a problem that was found.
func checkEvents(s set, others []finding.Finding) []finding.Finding {
	fix := "nothing, unless it happens again"
	if slices.ContainsFunc(others, func(f finding.Finding) bool { return f.Severity == finding.Problem }) {
		fix = "solve the scale set's problems first: this may be one of them"
	}
	reasons, latest := map[string]*tally{}, map[string]time.Time{}
	for i := range s.Warnings {
		event := &s.Warnings[i]
		_, at := kube.SaidAt(event)
		if s.Now.Sub(at) > recently || rejectsJobPod(event) ||
			slices.ContainsFunc(others, func(f finding.Finding) bool { return f.Reason == event.Reason }) {
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
		severity, step := finding.Info, fix+"; run kubectl describe on the object to see its Events"
		if reason == v1alpha1.ReasonJobHooksFailed { // no condition has it: the runner is gone
			severity, step = finding.Problem, meaning.OfRunner(reason)
		}
		findings = append(findings, s.finding(severity, reason,
			fmt.Sprintf("%s in the last %d minutes, the last %s ago on %s: %s",
				finding.Counted(t.count, "warning", "warnings"), int(recently.Minutes()),
				s.Now.Sub(latest[reason]).Round(time.Second), t.example, t.message),
			step))
	}
	return findings
}

// checkJobGrace reports that jobs, or the pods of jobs, don't get the time after a notice that the set is to give them.
func checkJobGrace(s set) []finding.Finding {
	given := s.Spec.JobGracePeriod
	if given == nil || given.Duration < time.Second {
		return nil
	}
	if why := kube.WhyNoJobGrace(&s.Spec.Template.Spec); why != "" {
		return []finding.Finding{s.finding(finding.Warning, "JobGracePeriodUnused", "jobGracePeriod "+why,
			"correct the template, or remove jobGracePeriod (docs/spot.md)")}
	}
	short := 0
	for i := range s.JobPods {
		if ptr.Deref(s.JobPods[i].Spec.TerminationGracePeriodSeconds, 0) < int64(given.Seconds()) {
			short++
		}
	}
	if short == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, "JobGracePeriodUnused",
		fmt.Sprintf("jobGracePeriod is %s, but %s less", given.Duration, finding.Counted(short, "job pod has", "job pods have")),
		"add terminationGracePeriodSeconds and the preStop hook to the template of job pods that you give in a ConfigMap of "+
			"your own, or that a variable of the runner names (docs/spot.md); runners from before a change have none")}
}
