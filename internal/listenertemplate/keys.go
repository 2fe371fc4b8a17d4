package listenertemplate

import (
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/internal/kube"
)

// Reasons why a label or annotation is refused.
const (
	ofInstaller  = "it says who installed an object, and the manager installs these"
	identity     = "it selects an identity in the cloud, which would be one of the manager's namespace"
	confinement  = "it selects a security profile, a device or a mount"
	network      = "it selects another network"
	interception = "it lets a webhook add containers, or send the pod's traffic through them"
	mirror       = "it makes the pod one that only a kubelet can create"
)

// family is a domain of labels and annotations that select something for a pod.
type family struct {
	domain, reason string
	// switchable families have values that turn them off, and those are let through.
	switchable bool
}

// families are keys that clouds, container runtimes, networks and webhooks read on pods. A domain stands for those
// below it, too.
var families = []family{
	{domain: "azure.workload.identity", reason: identity},
	{domain: "eks.amazonaws.com", reason: identity},
	{domain: "iam.amazonaws.com", reason: identity}, // kube2iam and kiam
	{domain: "iam.gke.io", reason: identity},
	{domain: "iam.cloud.google.com", reason: identity},
	{domain: "pod-identity.alibabacloud.com", reason: identity},
	{domain: "spiffe.io", reason: identity},

	{domain: "apparmor.security.beta.kubernetes.io", reason: confinement},
	{domain: "seccomp.security.alpha.kubernetes.io", reason: confinement},
	{domain: "cri-o.io", reason: confinement},
	{domain: "openshift.io", reason: confinement},
	{domain: "cdi.k8s.io", reason: confinement},
	{domain: "nri.io", reason: confinement},
	{domain: "nri.containerd.io", reason: confinement},

	{domain: "cni.cncf.io", reason: network},
	{domain: "multus-cni.io", reason: network},
	{domain: "cni.projectcalico.org", reason: network},
	{domain: "ovn.org", reason: network},
	{domain: "ovn.kubernetes.io", reason: network},
	{domain: "networking.gke.io", reason: network},
	{domain: "vpc.amazonaws.com", reason: network},
	{domain: "cilium.io", reason: network},

	{domain: "istio.io", reason: interception, switchable: true},
	{domain: "linkerd.io", reason: interception, switchable: true},
	{domain: "consul.hashicorp.com", reason: interception, switchable: true},
	{domain: "vault.hashicorp.com", reason: interception, switchable: true},
	{domain: "kuma.io", reason: interception, switchable: true},
	{domain: "dapr.io", reason: interception, switchable: true},
	{domain: "instrumentation.opentelemetry.io", reason: interception, switchable: true},
	{domain: "sidecar.opentelemetry.io", reason: interception, switchable: true},
	{domain: "jaegertracing.io", reason: interception, switchable: true},
	{domain: "admission.datadoghq.com", reason: interception, switchable: true},
}

// prefixes are of keys that can't be told by a domain: it is missing, or has harmless keys as well.
var prefixes = map[string]string{
	"aadpodidbinding":       identity,
	"io.kubernetes.cri-o.":  confinement,
	"io.katacontainers.":    confinement,
	"dev.gvisor.":           confinement,
	"io.cilium.":            network,
	"kubernetes.io/config.": mirror,
}

// off are the values that turn a switchable family off.
var off = []string{"false", "disabled", "none"}

// refusedKey returns the reason why an object in the manager's namespace may not have a label or annotation, "" if it
// may.
func refusedKey(key, value string) string {
	if kube.OfInstaller(key) {
		return ofInstaller
	}
	lower := strings.ToLower(key)
	for prefix, reason := range prefixes {
		if strings.HasPrefix(lower, prefix) {
			return reason
		}
	}
	for _, f := range families {
		turnedOff := f.switchable && slices.Contains(off, value)
		if kube.InDomain(key, f.domain) && !turnedOff {
			return f.reason
		}
	}
	return ""
}
