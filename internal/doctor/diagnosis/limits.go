package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
)

// maximum is the highest number of runners for which the scale set asks: nil means any number.
type maximum struct {
	number *int
	// name is that of the number, period the time until which it is in force, and advice the step that raises it.
	name, period, advice string
}

// askedFor returns the maximum of the spec, or the lowest of the schedules that are open.
func askedFor(s set) maximum {
	asked := maximum{number: s.Spec.MaxRunners, name: "maxRunners", advice: "raise maxRunners"}
	scheduled := false
	for _, schedule := range s.Spec.Schedules {
		if schedule.MaxRunners == nil || !slices.Contains(s.Status.ActiveSchedules, schedule.Name) ||
			(scheduled && *schedule.MaxRunners >= *asked.number) {
			continue
		}
		scheduled = true
		name := fmt.Sprintf("maxRunners of schedule %s", schedule.Name)
		asked = maximum{number: schedule.MaxRunners, name: name, advice: "raise " + name + ", or wait for its end"}
		if until := s.Status.EffectiveUntil; until != nil {
			asked.period = ", in force until " + until.UTC().Format(time.RFC3339) + ","
		}
	}
	return asked
}

// limitChecks are those of each kind of limit. Other checks report what else is wrong with runners.
var limitChecks = map[limits.Kind]func(set) []finding.Finding{
	limits.NoJobs: takesNoJobs, limits.Nodes: nodeLimit, limits.Quota: quotaLimit, limits.Claims: claimLimit,
	limits.Starts: registrationLimit,
	limits.Pace:   startLimit, limits.Announced: announcedLimit, limits.Ceiling: managersLimit,
	limits.Maximum: maxRunnersLimit,
}

// checkLimits answers why there are not more runners, in one finding: the first limit that holds.
func checkLimits(s set) []finding.Finding {
	for _, kind := range limits.Order {
		if check := limitChecks[kind]; check != nil {
			if found := check(s); found != nil {
				return found
			}
		}
	}
	return nil
}

// takesNoJobs: nothing is accepted.
func takesNoJobs(s set) []finding.Finding {
	asked := askedFor(s)
	switch {
	case s.Drained():
		return []finding.Finding{s.finding(finding.Problem, v1alpha1.ReasonDrained,
			"the scale set is drained: it takes 0 jobs, and its listener has no session; jobs that it has been "+
				"assigned run",
			fmt.Sprintf("to have it take jobs again, kubectl -n %s annotate autoscalingrunnerset %s %s-",
				s.Namespace, s.Name,
				v1alpha1.AnnotationDrained))}
	case asked.number != nil && *asked.number == 0:
		return []finding.Finding{s.finding(finding.Problem, v1alpha1.ReasonMaxRunnersZero,
			asked.name+asked.period+" is 0: the scale set takes no jobs, and its listener has no session; jobs that "+
				"run finish",
			asked.advice)}
	}
	return nil
}

// nodeLimit: pods wait for a node, or for a queue that lets them through.
func nodeLimit(s set) []finding.Finding {
	placed, waiting := 0, tally{}
	var reason string
	for i := range s.Pods {
		pod := &s.Pods[i]
		switch why, message := pendingReason(pod); {
		case why == corev1.PodReasonUnschedulable || why == corev1.PodReasonSchedulingGated:
			reason, waiting.message = cmp.Or(reason, why), cmp.Or(waiting.message, message)
			waiting.example, waiting.count = cmp.Or(waiting.example, pod.Name), waiting.count+1
		case pod.Status.Phase == corev1.PodRunning ||
			(pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName != ""):
			placed++
		}
	}
	if reason == "" {
		return nil
	}
	return []finding.Finding{s.finding(finding.Problem, reason,
		fmt.Sprintf("%s, while %d have a node; for example %s: %s",
			finding.Counted(waiting.count, "runner waits", "runners wait"), placed, waiting.example,
			cmp.Or(waiting.message, reason)), fixOfPod(reason))}
}

// quotaLimit: a ResourceQuota refuses objects, or would refuse the next ones.
func quotaLimit(s set) []finding.Finding {
	refused, full := s.fromCondition(finding.Problem,
		s.condition(v1alpha1.ConditionQuotaExceeded, metav1.ConditionTrue)),
		fullQuotas(s)
	if len(refused) == 0 || len(full) == 0 {
		return append(refused, full...)
	}
	refused[0].Message += "; " + full[0].Message
	return refused
}

// claimLimit: runners wait for claims. The findings about claims have the severity.
func claimLimit(s set) []finding.Finding {
	return s.fromCondition(finding.Warning, s.condition(v1alpha1.ConditionVolumeClaimsReady, metav1.ConditionFalse))
}

// registrationLimit: GitHub gives runners no registration, or not so fast.
func registrationLimit(s set) []finding.Finding {
	var reason, message string
	waiting, registered := 0, 0
	for i := range s.Runners {
		switch status := &s.Runners[i].Status; {
		case status.Done():
		case status.RunnerID != 0:
			registered++
		case slices.Contains(registrationReasons, status.Reason):
			reason, message = status.Reason, cmp.Or(message, status.Message)
			waiting++
		}
	}
	if waiting == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Problem, reason,
		strings.TrimSuffix(fmt.Sprintf("%s for a registration from GitHub, while %d have one: %s",
			finding.Counted(waiting, "runner waits", "runners wait"), registered, message), ": "), fixOfPod(reason))}
}

// registrationReasons are those for which a runner has no registration yet.
var registrationReasons = []string{
	v1alpha1.ReasonRateLimited, v1alpha1.ReasonRegistrationFailed, v1alpha1.ReasonGitHubUnavailable,
	v1alpha1.ReasonRefusedByGitHub, v1alpha1.ReasonRunnerNameTaken,
}

// startLimit: runners are held back.
func startLimit(s set) []finding.Finding {
	return s.fromCondition(finding.Warning, s.condition(v1alpha1.ConditionStartsLimited, metav1.ConditionTrue))
}

// announcedLimit: with capacity.mode Placement GitHub has assigned as many jobs as it was told that there is room for.
func announcedLimit(s set) []finding.Finding {
	limited, runnerSet := s.condition(v1alpha1.ConditionCapacityLimited, metav1.ConditionTrue), s.RunnerSet()
	if limited == nil || runnerSet == nil || runnerSet.Status.Capacity == nil ||
		runnerSet.Spec.AssignedJobs < *runnerSet.Status.Capacity {
		return nil
	}
	return s.fromCondition(finding.Warning, limited)
}

// managersLimit: the manager allows no more, or runners of a former template are left.
func managersLimit(s set) []finding.Finding {
	asked, runnerSet := askedFor(s), s.RunnerSet()
	if runnerSet == nil || runnerSet.Spec.MaxRunners == nil ||
		*runnerSet.Spec.MaxRunners > runnerSet.Spec.AssignedJobs ||
		(asked.number != nil && *asked.number <= *runnerSet.Spec.MaxRunners) {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, v1alpha1.ReasonMaxRunnersReached,
		fmt.Sprintf("the manager allows the scale set %s, with %s; more jobs wait on GitHub",
			finding.Counted(*runnerSet.Spec.MaxRunners, "runner", "runners"),
			finding.Counted(runnerSet.Spec.AssignedJobs, "assigned job", "assigned jobs")),
		"wait for a runner to finish; the limit is flags.maxRunnersPerSet of the controller's chart, which the "+
			"cluster's administrator decides, "+
			"or maxRunners less the runners of a former template")}
}

// maxRunnersLimit: the spec, or a schedule, allows no more.
func maxRunnersLimit(s set) []finding.Finding {
	asked, runnerSet := askedFor(s), s.RunnerSet()
	if asked.number == nil || runnerSet == nil || runnerSet.Spec.AssignedJobs < *asked.number {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, v1alpha1.ReasonMaxRunnersReached,
		fmt.Sprintf("%s of %d%s is reached, with %s; more jobs wait on GitHub", asked.name, *asked.number, asked.period,
			finding.Counted(runnerSet.Spec.AssignedJobs, "assigned job", "assigned jobs")),
		asked.advice+", or wait for a runner to finish")}
}

// fullQuotas reports ResourceQuotas that are used up for resources that the set's runners need. It is one finding for
// all resources: if a quota is raised for one of them only, runners wait for the next.
func fullQuotas(s set) []finding.Finding {
	var full []string
	for i := range s.Quotas {
		if used := usedUp(&s.Quotas[i], usesClaims(s)); len(used) > 0 {
			full = append(full, fmt.Sprintf("ResourceQuota %s: %s are used", s.Quotas[i].Name,
				strings.Join(used, ", ")))
		}
	}
	if len(full) == 0 {
		return nil
	}
	return []finding.Finding{s.finding(finding.Warning, "QuotaUsedUp", strings.Join(full, "; "),
		"raise the quota, or lower maxRunners or the runners' requests")}
}

// usesClaims reports whether runners need volume claims: claims of their own, as in mode kubernetes, or claims that
// outlive runners.
func usesClaims(s set) bool {
	return len(s.Spec.VolumeClaimTemplates) > 0 ||
		slices.ContainsFunc(s.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
}

// usedUp returns the resources of a quota that have nothing left for a runner, with or without volume claims.
func usedUp(quota *corev1.ResourceQuota, claims bool) (full []string) {
	for _, resource := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		hard, used := quota.Status.Hard[resource], quota.Status.Used[resource]
		if (ofRunners(resource) || (claims && ofClaims(resource))) && !hard.IsZero() && used.Cmp(hard) >= 0 {
			full = append(full, fmt.Sprintf("%s of %s %s", used.String(), hard.String(), resource))
		}
	}
	return full
}

// runnerResources are the resources of a ResourceQuota that a runner, its pod and its Secret count against.
var runnerResources = []corev1.ResourceName{
	corev1.ResourcePods, "count/pods", corev1.ResourceSecrets, "count/secrets",
	"count/ephemeralrunners.actions.github.com",
	corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
	corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory,
	corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage,
}

// ofRunners reports whether runners count against a resource of a quota: one of the above, or an extended resource,
// whose name contains a domain and for which quotas limit requests only.
func ofRunners(resource corev1.ResourceName) bool {
	name, requests := strings.CutPrefix(string(resource), corev1.DefaultResourceRequestsPrefix)
	return (requests && strings.Contains(name, "/")) || slices.Contains(runnerResources, resource)
}

// ofClaims reports whether volume claims, of any storage class or of a certain one, count against a resource of a
// quota.
func ofClaims(resource corev1.ResourceName) bool {
	return resource == corev1.ResourcePersistentVolumeClaims || resource == "count/persistentvolumeclaims" ||
		resource == corev1.ResourceRequestsStorage ||
		strings.Contains(string(resource), ".storageclass.storage.k8s.io/")
}
