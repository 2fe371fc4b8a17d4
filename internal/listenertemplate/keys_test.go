package listenertemplate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

func sorted(list []string) []string {
	return slices.Sorted(slices.Values(list))
}

// The keys are a table on purpose: the policy's own list must not be what judges it.
func TestKeys(t *testing.T) {
	const (
		ofInstaller  = "it says who installed an object, and the manager installs these"
		interception = "it lets a webhook add containers, or send the pod's traffic through them"
		holdsNode    = "it would hold a node that is everybody's, and a listener may be moved at any time"
		notAmong     = "only keys that can't hinder others are for scale sets (docs/listener-template.md has the list); " +
			"the controller's operator allows more by flags.listenerMetadataKeys"
	)
	type reasons struct{ label, annotation string }
	both := func(reason string) reasons { return reasons{reason, reason} }
	free, onlyAnnotation, onlyLabel := reasons{}, reasons{notAmong, ""}, reasons{"", notAmong}
	for key, want := range map[string]reasons{
		"app.kubernetes.io/name": both(ofInstaller), "APP.kubernetes.io/name": both(ofInstaller),
		"argocd.argoproj.io/instance":      both(ofInstaller),
		"kustomize.toolkit.fluxcd.io/name": both(ofInstaller), "helm.toolkit.fluxcd.io/name": both(ofInstaller),
		"helm.sh/chart": both(ofInstaller), "meta.helm.sh/release-name": both(ofInstaller),
		"sidecar.istio.io/proxyImage": both(interception), "sidecar.istio.io/inject": both(interception),
		"linkerd.io/inject": both(interception), "vault.hashicorp.com/agent-inject": both(interception),

		// A Service, a PodDisruptionBudget or a network policy of the manager's namespace may select by these.
		"app": both(notAmong), "k8s-app": both(notAmong), "component": both(notAmong), "release": both(notAmong),
		"pod-template-hash": both(notAmong), "auto-scaling-listener-name": both(notAmong), "": both(notAmong),
		"actions.github.com/volume-claim-template": both(notAmong), "actions.github.com/anything": both(notAmong),
		// Identities, security profiles, networks, schedulers, agents of the node, and what nobody knows yet.
		"azure.workload.identity/use": both(notAmong), "eks.amazonaws.com/role-arn": both(notAmong),
		"iam.gke.io/gcp-service-account": both(notAmong), "aadpodidbinding": both(notAmong),
		"container.apparmor.security.beta.kubernetes.io/listener": both(notAmong),
		"io.kubernetes.cri-o.Devices":                             both(notAmong), "cdi.k8s.io/gpu": both(notAmong),
		"k8s.v1.cni.cncf.io/networks": both(notAmong), "kubernetes.io/egress-bandwidth": both(notAmong),
		"scheduling.k8s.io/group-name": both(notAmong), "kueue.x-k8s.io/queue-name": both(notAmong),
		"ad.datadoghq.com/listener.checks": both(notAmong), "co.elastic.logs/module": both(notAmong),
		"kubernetes.io/config.mirror": both(notAmong), "of.the.future/anything": both(notAmong),
		"prometheus.io/param_target": both(notAmong), "PROMETHEUS.io/scrape": both(notAmong),
		"controller.kubernetes.io/pod-deletion-cost": both(notAmong),

		"team": free, "owner": free, "cost-center": free, "cost_center": free, "costcenter": free, "env": free,
		"environment": free, "stage": free, "project": free, "department": free, "business-unit": free,
		"contact": free, "description": free, "tenant": free,
		"actions.github.com/scale-set-name": onlyLabel, "actions.github.com/scale-set-namespace": onlyLabel,
		"actions.github.com/enterprise": onlyLabel, "actions.github.com/organization": onlyLabel,
		"actions.github.com/repository": onlyLabel,
		"prometheus.io/scrape":          onlyAnnotation, "prometheus.io/port": onlyAnnotation,
		"prometheus.io/path": onlyAnnotation, "prometheus.io/scheme": onlyAnnotation,
		"kubectl.kubernetes.io/default-container":      onlyAnnotation,
		"kubectl.kubernetes.io/default-logs-container": onlyAnnotation,
		"kubectl.kubernetes.io/restartedAt":            onlyAnnotation,
		"checksum/config":                              onlyAnnotation,
		"ad.datadoghq.com/exclude":                     onlyAnnotation, "ad.datadoghq.com/logs_exclude": onlyAnnotation,
		"ad.datadoghq.com/metrics_exclude": onlyAnnotation, "co.elastic.logs/enabled": onlyAnnotation,
		"fluentbit.io/exclude":                           onlyAnnotation,
		"cluster-autoscaler.kubernetes.io/safe-to-evict": {notAmong, holdsNode},
		"karpenter.sh/do-not-disrupt":                    {notAmong, holdsNode},
	} {
		checkKey(t, policy, key, "v", want.label, want.annotation)
	}
	for key, values := range map[string][2]string{
		"cluster-autoscaler.kubernetes.io/safe-to-evict": {"true", "false"},
		"karpenter.sh/do-not-disrupt":                    {"false", "true"},
	} {
		checkKey(t, policy, key, values[0], notAmong, "")
		checkKey(t, policy, key, values[1], notAmong, holdsNode)
	}
	for key, value := range map[string]string{
		"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled", "istio.io/dataplane-mode": "none",
		"consul.hashicorp.com/connect-inject": "false", "vault.hashicorp.com/agent-inject": "false",
		"kuma.io/sidecar-injection": "disabled", "dapr.io/enabled": "false", "admission.datadoghq.com/enabled": "false",
		"instrumentation.opentelemetry.io/inject-go": "false", "sidecar.opentelemetry.io/inject": "false",
		"sidecar.jaegertracing.io/inject": "false",
	} {
		checkKey(t, policy, key, value, "", "") // it can be turned off
	}
	checkKey(t, policy, "iam.gke.io/gcp-service-account", "false", notAmong, notAmong) // it can't be turned off

	more := listenertemplate.Policy{MetadataKeys: []string{"app", "example.com/*", "eks.amazonaws.com/role-arn", "helm.sh/*"}}
	for key, want := range map[string]string{
		"app": "", "example.com/a": "", "eks.amazonaws.com/role-arn": "", "application": notAmong,
		"example.com": notAmong, "more.example.com/a": notAmong, "eks.amazonaws.com/other": notAmong,
		"helm.sh/chart": ofInstaller, // the operator's own installer would take the pod for one of its
	} {
		checkKey(t, more, key, "v", want, want)
	}
}

// Of each map only the first hundred keys that are allowed count.
func TestManyKeys(t *testing.T) {
	given := &corev1.PodTemplateSpec{}
	given.Annotations = map[string]string{}
	for i := range 150 {
		given.Annotations[fmt.Sprintf("checksum/%03d", i)] = "x"
	}
	accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: given})
	if len(accepted.Template.Annotations) != 100 || len(accepted.Refused.First) != 50 {
		t.Errorf("%d annotations are left, %d refused", len(accepted.Template.Annotations), len(accepted.Refused.First))
	}
}

// checkKey checks that a listener's pod may have a key as a label and as an annotation, or that it is refused for these
// reasons.
func checkKey(t *testing.T, policy listenertemplate.Policy, key, value, ofLabel, ofAnnotation string) {
	t.Helper()
	given := &corev1.PodTemplateSpec{}
	given.Labels, given.Annotations = map[string]string{key: value}, map[string]string{key: value}
	accepted := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: given})
	want, kept := []listenertemplate.Refusal(nil), given.ObjectMeta
	if ofLabel != "" {
		kept.Labels = nil
		want = append(want, listenertemplate.Refusal{Path: "listenerTemplate.metadata.labels[" + key + "]", Reason: ofLabel})
	}
	if ofAnnotation != "" {
		kept.Annotations = nil
		want = append(want, listenertemplate.Refusal{Path: "listenerTemplate.metadata.annotations[" + key + "]", Reason: ofAnnotation})
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
			Annotations: map[string]string{"contact": "n", "helm.sh/resource-policy": "keep"},
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
		&v1alpha1.ResourceMeta{Labels: labels, Annotations: map[string]string{"contact": "n"}}, accepted.Listener,
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
			want = append(want, field+".annotations[contact]")
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
		"app":                         "database",
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, policy.Inherited(labels)); diff != "" {
		t.Errorf("restricted (-want +got):\n%s", diff)
	}
	want := map[string]string{"team": "a", "azure.workload.identity/use": "true", "app": "database"}
	if diff := cmp.Diff(want, listenertemplate.Policy{Unrestricted: true}.Inherited(labels)); diff != "" {
		t.Errorf("unrestricted (-want +got):\n%s", diff)
	}
	if len(labels) != 5 {
		t.Error("the set's own labels were changed")
	}
}
