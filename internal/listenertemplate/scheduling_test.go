package listenertemplate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// What steers other pods is left out under its own path, and the rest beside it stays.
func TestWhatSteersOtherPods(t *testing.T) {
	const (
		required  = "requiredDuringSchedulingIgnoredDuringExecution"
		preferred = "preferredDuringSchedulingIgnoredDuringExecution"
		rule      = "{topologyKey: zone, labelSelector: {}}"
		elsewhere = "{topologyKey: zone, labelSelector: {}, namespaces: [b]}"
		anywhere  = "{topologyKey: zone, labelSelector: {}, namespaceSelector: {}}"
	)
	weighted := func(rule string) string { return "{weight: 1, podAffinityTerm: " + rule + "}" }
	affinity := func(kind, when string, rules ...string) string {
		return "spec: {affinity: {" + kind + ": {" + when + ": [" + strings.Join(rules, ", ") + "]}}}"
	}
	for text, want := range map[string]struct {
		left    string
		refused []string
	}{
		affinity("podAntiAffinity", required, rule): {
			"spec: {affinity: {podAntiAffinity: {}}}", []string{"spec.affinity.podAntiAffinity." + required},
		},
		affinity("podAntiAffinity", preferred, weighted(rule), weighted(elsewhere), weighted(anywhere)): {
			affinity("podAntiAffinity", preferred, weighted(rule)),
			[]string{"spec.affinity.podAntiAffinity." + preferred, "spec.affinity.podAntiAffinity." + preferred},
		},
		affinity("podAffinity", preferred, weighted(anywhere)): {
			"spec: {affinity: {podAffinity: {}}}", []string{"spec.affinity.podAffinity." + preferred},
		},
		affinity("podAffinity", required, rule, elsewhere): {
			affinity("podAffinity", required, rule), []string{"spec.affinity.podAffinity." + required},
		},
		"spec: {priorityClassName: other}":                  {"{}", []string{"spec.priorityClassName"}},
		"spec: {priorityClassName: system-node-critical}":   {"{}", []string{"spec.priorityClassName"}},
		"spec: {priorityClassName: high}":                   {"spec: {priorityClassName: high}", nil}, // of the policy
		"spec: {terminationGracePeriodSeconds: 301}":        {"{}", []string{"spec.terminationGracePeriodSeconds"}},
		"spec: {terminationGracePeriodSeconds: 2147483647}": {"{}", []string{"spec.terminationGracePeriodSeconds"}},
		"spec: {terminationGracePeriodSeconds: 300}":        {"spec: {terminationGracePeriodSeconds: 300}", nil},
		"spec: {tolerations: [{operator: Exists}, {key: pool}, {key: node-role.kubernetes.io/control-plane}]}": {
			"spec: {tolerations: [{key: pool}]}", []string{"spec.tolerations", "spec.tolerations"},
		},
		// It harms only the pod itself: it stays on a node that is gone.
		"spec: {tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}]}": {
			"spec: {tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}]}", nil,
		},
		inListener("livenessProbe: {tcpSocket: {port: 1}, terminationGracePeriodSeconds: 99999}"): {
			inListener("livenessProbe: {tcpSocket: {port: 1}}"),
			[]string{ofListener + "livenessProbe.terminationGracePeriodSeconds"},
		},
		inListener("resources: {requests: {cpu: 3, memory: 1Gi}, limits: {cpu: 4, memory: 1Ti}}"): {
			inListener("resources: {requests: {memory: 1Gi}, limits: {memory: 1Ti}}"),
			[]string{ofListener + "resources.limits.cpu", ofListener + "resources.requests.cpu"},
		},
		// Without a request, the limit is one.
		inListener("resources: {limits: {cpu: 2, memory: 3Gi}}"): {
			inListener("resources: {limits: {cpu: 2}}"), []string{ofListener + "resources.limits.memory"},
		},
		inListener("resources: {requests: {nvidia.com/gpu: 1, hugepages-2Mi: 2Mi}, limits: {nvidia.com/gpu: 1}}"): {
			"spec: {containers: [{name: listener}]}",
			[]string{
				ofListener + "resources.limits.nvidia.com/gpu", ofListener + "resources.requests.hugepages-2Mi",
				ofListener + "resources.requests.nvidia.com/gpu",
			},
		},
		// All containers together.
		"spec: {containers: [{name: listener, resources: {requests: {cpu: 1500m}}}, " +
			`{name: a, image: "logs:1", resources: {requests: {cpu: 500m}}}, ` +
			`{name: b, image: "logs:1", resources: {requests: {cpu: 1m}}}]}`: {
			"spec: {containers: [{name: listener, resources: {requests: {cpu: 1500m}}}, " +
				`{name: a, image: "logs:1", resources: {requests: {cpu: 500m}}}, {name: b, image: "logs:1"}]}`,
			[]string{"spec.containers[b].resources.requests.cpu"},
		},
	} {
		checkRefused(t, text, want.refused)
		got := policy.Accept(&v1alpha1.AutoscalingRunnerSetSpec{ListenerTemplate: template(t, text)}).Template
		for i := range got.Spec.Containers { // what every further container has
			got.Spec.Containers[i].SecurityContext = nil
		}
		if diff := cmp.Diff(template(t, want.left), got); diff != "" {
			t.Errorf("%s: left (-want +got):\n%s", text, diff)
		}
	}
}
