package listenertemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/kube"
)

// Reasons why a label or annotation is refused.
const (
	ofInstaller  = "it says who installed an object, and the manager installs these"
	interception = "it lets a webhook add containers, or send the pod's traffic through them"
	holdsNode    = "it would hold a node that is everybody's, and a listener may be moved at any time"
	notAmongKeys = "only keys that can't hinder others are for scale sets (docs/listener-template.md has the list); the " +
		"controller's operator allows more by flags.listenerMetadataKeys"
)

// keyKind says whether a key is one of a label or of an annotation: Services, PodDisruptionBudgets and network policies
// of the manager's namespace select by labels.
type keyKind int

const (
	label keyKind = iota
	annotation
)

// descriptive are keys that nothing but people and their reports read. They are labels, too: policies of clusters
// demand them, and nobody selects the pods of a program by them alone.
var descriptive = []string{
	"business-unit", "contact", "cost-center", "cost_center", "costcenter", "department", "description", "env",
	"environment", "owner", "project", "stage", "team", "tenant",
}

// ofScaleSet are the labels by which the manager's own objects tell whose they are. What the manager writes there wins.
var ofScaleSet = []string{
	v1alpha1.LabelScaleSetName, v1alpha1.LabelScaleSetNamespace, v1alpha1.LabelEnterprise, v1alpha1.LabelOrganization,
	v1alpha1.LabelRepository,
}

// aboutThisPod are annotations that say something about this pod alone: what a monitoring system reads from it or
// leaves out, and which container a person sees first. Those by which a pod configures an agent of the node freely,
// such as the checks of ad.datadoghq.com, are not among them.
var aboutThisPod = []string{
	"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container",
	"kubectl.kubernetes.io/restartedAt",
	"prometheus.io/path", "prometheus.io/port", "prometheus.io/scheme", "prometheus.io/scrape",
	"ad.datadoghq.com/exclude", "ad.datadoghq.com/logs_exclude", "ad.datadoghq.com/metrics_exclude",
	"co.elastic.logs/enabled", "fluentbit.io/exclude",
}

// checksums begin the annotations by which charts replace pods whose configuration has changed. Nothing reads them.
const checksums = "checksum/"

// movable are annotations of node autoscalers, with the value that lets them move the pod.
var movable = map[string]string{
	"cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
	"karpenter.sh/do-not-disrupt":                    "false",
}

// injectors are domains whose webhooks add containers to pods. Values that turn that off are let through.
var injectors = []string{
	"istio.io", "linkerd.io", "consul.hashicorp.com", "vault.hashicorp.com", "kuma.io", "dapr.io",
	"instrumentation.opentelemetry.io", "sidecar.opentelemetry.io", "jaegertracing.io", "admission.datadoghq.com",
}

// off are the values that turn an injector off.
var off = []string{"false", "disabled", "none"}

// refusedKey returns the reason why an object in the manager's namespace may not have a label or annotation, "" if it
// may.
func (p Policy) refusedKey(kind keyKind, key, value string) string {
	inDomain := func(domain string) bool { return kube.InDomain(key, domain) }
	movableBy, ofAutoscaler := movable[key]
	switch {
	case kube.OfInstaller(key):
		return ofInstaller
	case p.Unrestricted, p.allowsKey(key), slices.Contains(descriptive, key):
		return ""
	case kind == label && slices.Contains(ofScaleSet, key):
		return ""
	case kind == annotation && (slices.Contains(aboutThisPod, key) || strings.HasPrefix(key, checksums)):
		return ""
	case kind == annotation && ofAutoscaler && value == movableBy:
		return ""
	case kind == annotation && ofAutoscaler:
		return holdsNode
	case !slices.ContainsFunc(injectors, inDomain):
		return notAmongKeys
	case !slices.Contains(off, value):
		return interception
	}
	return ""
}

// allowsKey reports whether the operator of the manager has listed the key, or all keys of its domain as DOMAIN/*.
func (p Policy) allowsKey(key string) bool {
	domain, _, hasDomain := strings.Cut(key, "/")
	return slices.Contains(p.MetadataKeys, key) || (hasDomain && slices.Contains(p.MetadataKeys, domain+"/*"))
}

// keys returns the labels or annotations that are not refused, at most maxElements.
func (r *review) keys(path string, kind keyKind, given map[string]string) map[string]string {
	var kept map[string]string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		reason := r.policy.refusedKey(kind, key, given[key])
		if reason == "" && len(kept) == maxElements {
			reason = fmt.Sprintf("only the first %d count", maxElements)
		}
		if reason != "" {
			r.refuse(element(path, key), reason)
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = given[key]
	}
	return kept
}

// Inherited returns the labels of a scale set or an AutoscalingListener that objects in the manager's namespace repeat.
// Nobody is told of the others: the set's chart has set most of them.
func (p Policy) Inherited(labels map[string]string) map[string]string {
	inherited := maps.Clone(labels)
	maps.DeleteFunc(inherited, func(key, value string) bool { return p.refusedKey(label, key, value) != "" })
	return inherited
}
