package charts

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// metadataKinds are the chart's objects by their key in resourceMeta.
var metadataKinds = map[string]string{
	"autoscalingRunnerSet":         "autoscalingrunnerset.yaml",
	"githubConfigSecret":           "githubsecret.yaml",
	"hookExtension":                "hook_extension.yaml",
	"jobHooks":                     "job_hooks.yaml",
	"kubernetesModeRole":           "kube_mode_role.yaml",
	"kubernetesModeRoleBinding":    "kube_mode_role_binding.yaml",
	"kubernetesModeServiceAccount": "kube_mode_serviceaccount.yaml",
	"managerRole":                  "manager_role.yaml",
	"managerRoleBinding":           "manager_role_binding.yaml",
	"noPermissionServiceAccount":   "no_permission_serviceaccount.yaml",
}

// Lowest first: labels and annotations for all objects, those for one kind, the chart's own.
func TestMetadataPrecedence(t *testing.T) {
	t.Parallel()
	const values = `
feedback: {jobLog: true}
labels: {global: "1", both: global, app.kubernetes.io/part-of: mine, app.kubernetes.io/component: mine, actions.github.com/x: mine}
annotations: {global: true, both: global, actions.github.com/cleanup-x: mine, actions.github.com/values-hash: mine, actions.github.com/x: mine}
resourceMeta:
  KIND:
    labels: {own: 12345678, both: own, app.kubernetes.io/name: mine, actions.github.com/y: mine}
    annotations: {own: "1", both: own, actions.github.com/cleanup-y: mine}
`
	for kind, file := range metadataKinds {
		containerMode := hookTemplate
		if kind == "noPermissionServiceAccount" {
			containerMode = mode("none")
		}
		documents := renderSet(t, scaleSet, containerMode, strings.ReplaceAll(values, "KIND", kind))[file]
		got := decode[object](t, documents[0]).Metadata
		labels := extended(chartLabels("test-runners", components[file]), map[string]string{
			"global": "1",
			"own":    "12345678",
			"both":   "own",
		})
		annotations := map[string]string{"global": "true", "own": "1", "both": "own", "actions.github.com/x": "mine"}
		if kind == "autoscalingRunnerSet" {
			check(t, "hash", len(got.Annotations["actions.github.com/values-hash"]), 63)
			for key := range got.Annotations {
				if strings.HasPrefix(key, "actions.github.com/cleanup-") && got.Annotations[key] != "mine" {
					delete(got.Annotations, key)
				}
			}
			delete(got.Annotations, "actions.github.com/values-hash")
		} else {
			labels["actions.github.com/y"] = "mine"
			annotations["actions.github.com/cleanup-x"] = "mine"
			annotations["actions.github.com/cleanup-y"] = "mine"
			annotations["actions.github.com/values-hash"] = "mine"
		}
		check(t, "labels of "+kind, got.Labels, labels)
		check(t, "annotations of "+kind, got.Annotations, annotations)
	}
}

// The controller's objects get their metadata by the spec.
func TestMetadataOfDependents(t *testing.T) {
	t.Parallel()
	fields := map[string]func(v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta{
		"autoscalingListener": func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta { return s.AutoscalingListenerMetadata },
		"listenerServiceAccount": func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta {
			return s.ListenerServiceAccountMetadata
		},
		"listenerRole":        func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta { return s.ListenerRoleMetadata },
		"listenerRoleBinding": func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta { return s.ListenerRoleBindingMetadata },
		"listenerConfigSecret": func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta {
			return s.ListenerConfigSecretMetadata
		},
		"ephemeralRunnerSet": func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta { return s.EphemeralRunnerSetMetadata },
		"ephemeralRunner":    func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta { return s.EphemeralRunnerMetadata },
		"ephemeralRunnerConfigSecret": func(s v1alpha1.AutoscalingRunnerSetSpec) *v1alpha1.ResourceMeta {
			return s.EphemeralRunnerConfigSecretMetadata
		},
	}
	var values strings.Builder
	values.WriteString("resourceMeta:\n")
	for kind := range fields {
		values.WriteString("  " + kind + ": {labels: {kind: " + kind + ", number: 5}, annotations: {a: " +
			kind + "}}\n")
	}
	spec, unset := runnerSet(t, scaleSet, values.String()).Spec, runnerSet(t, scaleSet).Spec
	for kind, field := range fields {
		check(t, kind, field(spec), &v1alpha1.ResourceMeta{
			Labels:      map[string]string{"kind": kind, "number": "5"},
			Annotations: map[string]string{"a": kind},
		})
		check(t, kind+" by default", field(unset), (*v1alpha1.ResourceMeta)(nil))
	}
	only := runnerSet(t, scaleSet, "resourceMeta: {ephemeralRunner: {labels: {a: b}}}").Spec.EphemeralRunnerMetadata
	check(t, "labels alone", only, &v1alpha1.ResourceMeta{Labels: map[string]string{"a": "b"}})
}

// Kubernetes takes strings only; YAML reads values without quotes as numbers and booleans.
func TestMetadataOfPodTemplatesAreStrings(t *testing.T) {
	t.Parallel()
	const metadata = "metadata: {labels: {spot: true, many: 12345678}, annotations: {part: 1.5, id: " +
		"'9007199254740993'}}"
	got := runnerSet(t, scaleSet,
		"template: {"+metadata+"}\nlistenerTemplate: {"+metadata+", spec: {containers: [{name: listener}]}}").Spec
	for name, meta := range map[string]metav1.ObjectMeta{"runner": got.Template.ObjectMeta,
		"listener": got.ListenerTemplate.ObjectMeta} {
		check(t, "labels of the "+name, meta.Labels, map[string]string{"spot": "true", "many": "12345678"})
		check(t, "annotations of the "+name, meta.Annotations,
			map[string]string{"part": "1.5", "id": "9007199254740993"})
	}
	check(t, "containers", len(got.ListenerTemplate.Spec.Containers), 1)
}

// Null removes a key of another values file, or of all objects.
func TestNullTakesMetadataAway(t *testing.T) {
	t.Parallel()
	const none = "{labels: {gone: null}, annotations: {gone: null}}"
	for kind, file := range metadataKinds {
		containerMode := hookTemplate
		if kind == "noPermissionServiceAccount" {
			containerMode = mode("none")
		}
		global := "feedback: {jobLog: true}\nlabels: {global: a, more: b, gone: null}\nannotations: {global: a, " +
			"more: b, gone: null}\n"
		rendered := renderSet(t, scaleSet, containerMode,
			global+"resourceMeta: {"+kind+": {labels: {global: null}, annotations: {global: null}}}")
		got := decode[object](t, rendered[file][0]).Metadata
		check(t, "labels of "+kind, got.Labels,
			extended(chartLabels("test-runners", components[file]), map[string]string{"more": "b"}))
		check(t, "annotation of "+kind, got.Annotations["more"], "b")
		for _, key := range []string{"global", "gone"} {
			if value, found := got.Annotations[key]; found {
				t.Errorf("annotation %s of %s is %q", key, kind, value)
			}
		}
	}
	spec := runnerSet(t, scaleSet, "template: {metadata: "+none+"}",
		"listenerTemplate: {metadata: "+none+", spec: {nodeSelector: {a: b}}}",
		"resourceMeta: {ephemeralRunner: "+none+", listenerRole: {labels: {gone: null, a: b}}}").Spec
	check(t, "runner", spec.Template.ObjectMeta, metav1.ObjectMeta{})
	check(t, "listener", spec.ListenerTemplate.ObjectMeta, metav1.ObjectMeta{})
	check(t, "runner object", spec.EphemeralRunnerMetadata, (*v1alpha1.ResourceMeta)(nil))
	check(t, "listener's role", spec.ListenerRoleMetadata, &v1alpha1.ResourceMeta{Labels: map[string]string{"a": "b"}})
}
