package doctor

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// tally counts what happened for one reason, with one example.
type tally struct {
	count            int
	example, message string
}

// add counts an object under a reason.
func add(tallies map[string]*tally, reason, name, message string) {
	if tallies[reason] == nil {
		tallies[reason] = &tally{example: name, message: message}
	}
	tallies[reason].count++
}

// waiting tells why pods that were made don't run.
func waiting(s *Set) []Finding {
	reasons := map[string]*tally{}
	for i := range s.Pods {
		if reason, message := pendingReason(&s.Pods[i]); reason != "" {
			add(reasons, reason, s.Pods[i].Name, message)
		}
	}
	for i := range s.Runners {
		r := &s.Runners[i]
		if r.Status.Reason != "" && !r.Status.Done() && r.Status.Phase != v1alpha1.EphemeralRunnerPhaseRunning && reasons[r.Status.Reason] == nil {
			add(reasons, r.Status.Reason, r.Name, r.Status.Message)
		}
	}
	var findings []Finding
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t := reasons[reason]
		severity := Problem
		if passing(reason) {
			severity = Info
		}
		findings = append(findings, s.finding(severity, reason,
			fmt.Sprintf("%d runners wait for %s, for example %s: %s", t.count, reason, t.example, t.message), fixOfPod(reason)))
	}
	return findings
}

// passing says that a pod with this reason is on its way.
func passing(reason string) bool {
	return slices.Contains([]string{"ContainerCreating", "PodInitializing", "Pending"}, reason)
}

// pendingReason is the scheduler's or the kubelet's word for why the pod's containers don't run; empty for one that runs
// or is over.
func pendingReason(pod *corev1.Pod) (reason, message string) {
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" || pod.DeletionTimestamp != nil {
		return "", ""
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason, c.Message
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if w := statuses[i].State.Waiting; w != nil && w.Reason != "PodInitializing" {
				return w.Reason, w.Message
			}
		}
	}
	return "Pending", "the pod has not started yet"
}

// failing tells what runners failed of that are kept as evidence.
func failing(s *Set) []Finding {
	reasons := map[string]*tally{}
	for i := range s.Runners {
		r := &s.Runners[i]
		if r.Status.Phase == v1alpha1.EphemeralRunnerPhaseFailed {
			add(reasons, r.Status.Reason, r.Name, r.Status.Message)
		}
	}
	var findings []Finding
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t := reasons[reason]
		findings = append(findings, s.finding(Warning, reason,
			fmt.Sprintf("%d runners failed of %s, for example %s: %s", t.count, reason, t.example, t.message), fixOfPod(reason)))
	}
	return findings
}

// fullQuota tells of resources of a ResourceQuota that are used up, while the set's pods may want more.
func fullQuota(s *Set, quota *corev1.ResourceQuota) []Finding {
	var findings []Finding
	for _, resource := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		hard, used := quota.Status.Hard[resource], quota.Status.Used[resource]
		if !hard.IsZero() && used.Cmp(hard) >= 0 {
			findings = append(findings, s.finding(Warning, "QuotaUsedUp",
				fmt.Sprintf("ResourceQuota %s: %s of %s %s are used", quota.Name, used.String(), hard.String(), resource),
				"raise the quota, or lower maxRunners or the runners' requests"))
		}
	}
	return findings
}
