package charts

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// A digest wins over the tag, and listeners run the same image.
func TestImageByDigest(t *testing.T) {
	t.Parallel()
	got := manager(t, "image: {repository: registry.example.com/harrier, tag: v1, digest: '"+digest+"'}")
	check(t, "image", got.Image, "registry.example.com/harrier@"+digest)
	check(t, "image of listeners", got.Env, managerEnv(got.Image))
}

// These keys are also read where comments of ARC's values.yaml had them. Those under flags win. Numbers may be in
// quotes.
func TestMisplacedFlags(t *testing.T) {
	t.Parallel()
	const misplaced = `
k8sClientRateLimiterQPS: "33"
k8sClientRateLimiterBurst: 66
rateLimiter: {name: typed_rate_limiter}
healthProbeBindAddress: ":8082"
`
	got := manager(t, misplaced,
		"flags: {k8sClientRateLimiterBurst: '77', runnerMaxConcurrentReconciles: '4'}\nreplicaCount: '2'")
	for _, argument := range []string{
		"--k8s-client-rate-limiter-qps=33", "--k8s-client-rate-limiter-burst=77", "--workqueue-rate-limiter=typed_rate_limiter",
		"--health-probe-bind-address=:8082", "--runner-max-concurrent-reconciles=4", "--enable-leader-election",
	} {
		checkContains(t, strings.Join(got.Args, " ")+" ", argument+" ")
	}
	check(t, "probe", got.ReadinessProbe.HTTPGet.Port.IntValue(), 8082)
}

// By default no NetworkPolicy is rendered. With one, the pods of controller and listeners take connections for metrics
// only.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	check(t, "policies by default", len(render(t, controller)["networkpolicy.yaml"]), 0)
	const on = "networkPolicy: {enabled: true}"
	const metrics = "metrics: {controllerManagerAddr: ':8080', listenerAddr: ':8081', listenerEndpoint: /metrics}"
	const rules = `
networkPolicy:
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
  egress: [{ports: [{port: 443}]}]
`
	for _, test := range []struct {
		values []string
		ports  [][]int32
		types  int
	}{
		{[]string{on}, [][]int32{nil, nil}, 1},
		{[]string{on, metrics}, [][]int32{{8080}, {8081}}, 1},
		{[]string{on, metrics, rules}, [][]int32{{8080}, {8081}}, 2},
	} {
		rendered := render(t, controller, test.values...)
		policies := all[networkingv1.NetworkPolicy](t, rendered, "networkpolicy.yaml")
		check(t, "names", names(policies, func(p networkingv1.NetworkPolicy) string {
			return p.Namespace + "/" + p.Name
		}),
			[]string{"arc-systems/arc-gha-rs-controller", "arc-systems/arc-gha-rs-controller-listener"})
		check(t, "controller's pods", policies[0].Spec.PodSelector, *selectorOfPods(deployment(t)))
		check(t, "listeners' pods", policies[1].Spec.PodSelector.MatchLabels[v1alpha1.LabelComponent],
			v1alpha1.ComponentListener)
		for i, policy := range policies {
			check(t, "open ports", openPorts(policy), test.ports[i])
			check(t, "types", len(policy.Spec.PolicyTypes), test.types)
			check(t, "egress rules", len(policy.Spec.Egress), test.types-1)
			for _, rule := range policy.Spec.Ingress {
				check(t, "peers", len(rule.From), test.types-1)
			}
		}
	}
}

func openPorts(policy networkingv1.NetworkPolicy) (ports []int32) {
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			if *port.Protocol == corev1.ProtocolTCP {
				ports = append(ports, port.Port.IntVal)
			}
		}
	}
	return ports
}
