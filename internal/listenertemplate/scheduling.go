package listenertemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What a template says of its own pod's place is used: nodes, zones, the scheduler's name. What keeps other pods from
// theirs is not.

const (
	// maxGraceSeconds is how long a node's drain may wait for a listener. It needs one minute itself.
	maxGraceSeconds = 300
	// controlPlanes is the domain of the taints that keep pods off the nodes of the API server and etcd.
	controlPlanes = "node-role.kubernetes.io"
)

// maxRequests is what all containers of a listener's pod may request together of a node, which no quota of the scale
// set's namespace counts. A listener takes some 10m and 32Mi. Other resources, such as devices and huge pages, are not
// for listeners.
var maxRequests = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("2"),
	corev1.ResourceMemory:           resource.MustParse("2Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("2Gi"),
}

// affinity returns the rules for the pod's own place. A required rule against other pods is one for those pods, too, and
// a rule about another namespace weighs on the pods there.
func (r *review) affinity(path string, given *corev1.Affinity) *corev1.Affinity {
	if given == nil {
		return nil
	}
	kept := &corev1.Affinity{}
	if nodes := given.NodeAffinity; nodes != nil {
		kept.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: nodes.RequiredDuringSchedulingIgnoredDuringExecution,
			PreferredDuringSchedulingIgnoredDuringExecution: limited(r, path+".nodeAffinity."+preferred,
				nodes.PreferredDuringSchedulingIgnoredDuringExecution),
		}
	}
	if pods := given.PodAffinity; pods != nil {
		at := path + ".podAffinity."
		kept.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: near(r, at+required,
				pods.RequiredDuringSchedulingIgnoredDuringExecution, unweighted),
			PreferredDuringSchedulingIgnoredDuringExecution: near(r, at+preferred,
				pods.PreferredDuringSchedulingIgnoredDuringExecution, weighted),
		}
	}
	if pods := given.PodAntiAffinity; pods != nil {
		at := path + ".podAntiAffinity."
		if len(pods.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			r.refuse(at+required, "it keeps the pods that it selects off the listener's nodes: use "+preferred)
		}
		kept.PodAntiAffinity = &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: near(r, at+preferred,
				pods.PreferredDuringSchedulingIgnoredDuringExecution, weighted),
		}
	}
	return kept
}

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func unweighted(term *corev1.PodAffinityTerm) *corev1.PodAffinityTerm { return term }

func weighted(term *corev1.WeightedPodAffinityTerm) *corev1.PodAffinityTerm {
	return &term.PodAffinityTerm
}

// near returns the rules about pods of the manager's own namespace.
func near[T any](r *review, path string, given []T, term func(*T) *corev1.PodAffinityTerm) (kept []T) {
	given = limited(r, path, given)
	for i := range given {
		if rule := term(&given[i]); len(rule.Namespaces) > 0 || rule.NamespaceSelector != nil {
			r.refuse(path, "rules about pods of other namespaces weigh on where those pods go")
			continue
		}
		kept = append(kept, given[i])
	}
	return kept
}

// tolerations returns those that don't open the nodes of the control plane. The others say where the pod itself may be,
// and stay.
func (r *review) tolerations(path string, given []corev1.Toleration) (kept []corev1.Toleration) {
	for _, toleration := range limited(r, path, given) {
		switch domain, _, _ := strings.Cut(toleration.Key, "/"); {
		case toleration.Key == "":
			r.refuse(path, "one without a key opens every node, those of the control plane, too: name a key")
		case domain == controlPlanes:
			r.refuse(path, "nodes of the control plane are not for scale sets")
		default:
			kept = append(kept, toleration)
		}
	}
	return kept
}

// grace returns the time that a pod or a container gets to end, unless it is so long that it holds the node.
func (r *review) grace(path string, seconds *int64) *int64 {
	if seconds == nil || *seconds <= maxGraceSeconds {
		return seconds
	}
	r.refuse(path+".terminationGracePeriodSeconds",
		fmt.Sprintf("a node that is drained would wait for it: use at most %d", maxGraceSeconds))
	return nil
}

// resources returns what a container requests and its limits. A limit without a request is one: the API server copies
// it. Requests that come on top of those of the containers before must be within maxRequests together.
func (r *review) resources(path string, given *corev1.ResourceRequirements) (kept corev1.ResourceRequirements) {
	keep := func(list *corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = quantity
	}
	names := maps.Clone(given.Limits)
	if names == nil {
		names = corev1.ResourceList{}
	}
	maps.Copy(names, given.Requests) // the request counts where there is one
	for _, name := range slices.Sorted(maps.Keys(names)) {
		limit, isLimited := given.Limits[name]
		request, isRequested := given.Requests[name]
		if reason := r.takes(name, names[name]); reason != "" {
			if isRequested {
				r.refuse(path+".requests."+string(name), reason)
			}
			if isLimited {
				r.refuse(path+".limits."+string(name), reason)
			}
			continue
		}
		if isRequested {
			keep(&kept.Requests, name, request)
		}
		if isLimited {
			keep(&kept.Limits, name, limit)
		}
	}
	return kept
}

// takes adds a request to those of the pod. It returns the reason why it can't, "" if it can.
func (r *review) takes(name corev1.ResourceName, quantity resource.Quantity) string {
	most, known := maxRequests[name]
	if !known {
		return "listener pods can request cpu, memory and ephemeral-storage only"
	}
	sum := r.requested[name]
	sum.Add(quantity)
	if sum.Cmp(most) > 0 {
		return fmt.Sprintf("a listener's pod can request %s together, as no quota of the scale set's namespace "+
			"counts it", most.String())
	}
	if r.requested == nil {
		r.requested = corev1.ResourceList{}
	}
	r.requested[name] = sum
	return ""
}
