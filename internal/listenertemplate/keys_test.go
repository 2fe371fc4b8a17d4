package listenertemplate_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

func sorted(list []string) []string {
	return slices.Sorted(slices.Values(list))
}

func TestKeys(t *testing.T) {
	const (
		ofInstaller  = "it says who installed an object, and the manager installs these"
		identity     = "it selects an identity in the cloud, which would be one of the manager's namespace"
		confinement  = "it selects a security profile, a device or a mount"
		network      = "it selects another network"
		interception = "it lets a webhook add containers, or send the pod's traffic through them"
		mirror       = "it makes the pod one that only a kubelet can create"
	)
	for key, want := range map[string]string{
		"app.kubernetes.io/name": ofInstaller, "APP.kubernetes.io/name": ofInstaller,
		"argocd.argoproj.io/instance":      ofInstaller,
		"kustomize.toolkit.fluxcd.io/name": ofInstaller, "helm.toolkit.fluxcd.io/name": ofInstaller,
		"helm.sh/chart": ofInstaller, "meta.helm.sh/release-name": ofInstaller,
		"azure.workload.identity/use": identity, "eks.amazonaws.com/role-arn": identity,
		"iam.gke.io/gcp-service-account": identity,
		"iam.amazonaws.com/role":         identity, "aadpodidbinding": identity,
		"container.apparmor.security.beta.kubernetes.io/listener": confinement,
		"container.seccomp.security.alpha.kubernetes.io/listener": confinement,
		"seccomp.security.alpha.kubernetes.io/pod":                confinement,
		"io.kubernetes.cri-o.Devices":                             confinement, "cdi.k8s.io/gpu": confinement,
		"devices.nri.io/container.listener": confinement, "openshift.io/required-scc": confinement,
		"io.katacontainers.config.hypervisor.path": confinement,
		"k8s.v1.cni.cncf.io/networks":              network, "v1.multus-cni.io/default-network": network,
		"cni.projectcalico.org/ipAddrs": network, "k8s.ovn.org/pod-networks": network,
		"sidecar.istio.io/proxyImage": interception, "sidecar.istio.io/inject": interception,
		"linkerd.io/inject": interception, "vault.hashicorp.com/agent-inject": interception,
		"kubernetes.io/config.mirror": mirror,

		"team": "", "app": "", "example.com/app.kubernetes.io": "", "prometheus.io/scrape": "", "my-helm.sh/chart": "",
		"kubectl.kubernetes.io/default-container":        "",
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "", "actions.github.com/scale-set-name": "", "": "",
	} {
		checkKey(t, key, "v", want)
	}
	for key, value := range map[string]string{
		"sidecar.istio.io/inject": "false",
		"linkerd.io/inject":       "disabled",
		"istio.io/dataplane-mode": "none",
	} {
		checkKey(t, key, value, "") // it can be turned off
	}
	checkKey(t, "iam.gke.io/gcp-service-account", "false", identity) // it has no value that turns it off
}

// checkKey checks that a listener's pod may have a label and an annotation, or that they are refused for a reason.
func checkKey(t *testing.T, key, value, reason string) {
	t.Helper()
	given := &corev1.PodTemplateSpec{}
	given.Labels, given.Annotations = map[string]string{key: value}, map[string]string{key: value}
	accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: given})
	want, kept := []listenertemplate.Refusal(nil), given.ObjectMeta
	if reason != "" {
		kept = metav1.ObjectMeta{}
		want = []listenertemplate.Refusal{
			{Path: "metadata.labels[" + key + "]", Reason: reason},
			{Path: "metadata.annotations[" + key + "]", Reason: reason},
		}
	}
	if diff := cmp.Diff(want, accepted.Refused.First); diff != "" {
		t.Errorf("%s: refused (-want +got):\n%s", key, diff)
	}
	if diff := cmp.Diff(kept, accepted.Template.ObjectMeta); diff != "" {
		t.Errorf("%s: left (-want +got):\n%s", key, diff)
	}
}

func TestMetadata(t *testing.T) {
	meta := func() *v1alpha1.ResourceMeta {
		return &v1alpha1.ResourceMeta{
			Labels: map[string]string{
				"team":                        "a",
				"azure.workload.identity/use": "true",
				"app.kubernetes.io/instance":  "arc",
			},
			Annotations: map[string]string{"note": "n", "helm.sh/resource-policy": "keep"},
		}
	}
	accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{
		AutoscalingListenerMetadata:    meta(),
		ListenerServiceAccountMetadata: meta(),
		ListenerConfigSecretMetadata:   meta(),
		// These are in the set's own namespace.
		ListenerRoleMetadata: meta(), ListenerRoleBindingMetadata: meta(), EphemeralRunnerMetadata: meta(),
	})
	labels := map[string]string{"team": "a"}
	if diff := cmp.Diff(
		&v1alpha1.ResourceMeta{Labels: labels, Annotations: map[string]string{"note": "n"}}, accepted.Listener,
	); diff != "" {
		t.Errorf("AutoscalingListener (-want +got):\n%s", diff)
	}
	for name, got := range map[string]*v1alpha1.ResourceMeta{
		"ServiceAccount": accepted.ServiceAccount,
		"Secret":         accepted.ConfigSecret,
		"again":          policy.Object(meta()),
	} {
		if diff := cmp.Diff(&v1alpha1.ResourceMeta{Labels: labels}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var want []string
	for _, field := range []string{
		"autoscalingListener", "listenerServiceAccountMetadata", "listenerConfigSecretMetadata",
	} {
		want = append(
			want, field+".labels[app.kubernetes.io/instance]", field+".labels[azure.workload.identity/use]",
			field+".annotations[helm.sh/resource-policy]",
		)
		if field != "autoscalingListener" {
			want = append(want, field+".annotations[note]")
		}
	}
	if diff := cmp.Diff(sorted(want), sorted(paths(accepted.Refused))); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// A set's own labels are dropped without a word: its chart sets them.
func TestInherited(t *testing.T) {
	labels := map[string]string{
		"team":                        "a",
		"app.kubernetes.io/name":      "gha-rs-controller",
		"argocd.argoproj.io/instance": "a",
		"azure.workload.identity/use": "true",
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, policy.Inherited(labels)); diff != "" {
		t.Errorf("restricted (-want +got):\n%s", diff)
	}
	want := map[string]string{"team": "a", "azure.workload.identity/use": "true"}
	if diff := cmp.Diff(want, listenertemplate.Policy{Unrestricted: true}.Inherited(labels)); diff != "" {
		t.Errorf("unrestricted (-want +got):\n%s", diff)
	}
	if len(labels) != 4 {
		t.Error("the set's own labels were changed")
	}
}
