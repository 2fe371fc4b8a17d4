package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/capacity/limits"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/finding"
)

// checkLimits answers why there are not more runners, in one finding: what the set's status says, or which quotas have
// nothing left, which the set learns only from the next runner. Other checks report runners that fail or are refused.
func checkLimits(s set) []finding.Finding {
	full, by := fullQuotas(s), s.Status.LimitedBy
	switch {
	case by == nil || s.DeletionTimestamp != nil || by.Kind == limits.Outdated || by.Kind == limits.Failures,
		len(full) > 0 && slices.Index(limits.Order, by.Kind) > slices.Index(limits.Order, limits.Quota):
		return full
	}
	severity, reason, message := finding.Warning, by.Reason, cmp.Or(by.Message, by.Reason)
	switch by.Kind {
	case limits.NoJobs:
		severity = finding.Problem
		message += ": the scale set takes 0 jobs, and its listener has no session; jobs that it has been assigned run"
	case limits.Quota:
		severity = finding.Problem
		if c := s.condition(v1alpha1.ConditionQuotaExceeded, metav1.ConditionTrue); c != nil {
			reason = c.Reason // which objects are refused
		}
		if len(full) > 0 {
			message += "; " + full[0].Message
		}
	case limits.Nodes, limits.Starts:
		severity = finding.Problem
	case limits.Claims:
		if reason == v1alpha1.ReasonVolumeUnbound {
			severity = finding.Problem
		}
	}
	return []finding.Finding{s.finding(severity, reason, message, meaning.OfRunner(reason))}
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
	const reason = "QuotaUsedUp"
	return []finding.Finding{s.finding(finding.Warning, reason, strings.Join(full, "; "), meaning.OfRunner(reason))}
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
