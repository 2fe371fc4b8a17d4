package charts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

const ledger = "history: {enabled: true}"

// ofKind returns the documents of a kind that the ledger's template renders.
func ofKind(rendered manifests, kind string) (documents []string) {
	for _, document := range rendered["history.yaml"] {
		if strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
			documents = append(documents, document)
		}
	}
	return documents
}

func historyOf(t *testing.T, rendered manifests) appsv1.StatefulSet {
	t.Helper()
	found := ofKind(rendered, "StatefulSet")
	if len(found) != 1 {
		t.Fatalf("the ledger has %d StatefulSets", len(found))
	}
	return decode[appsv1.StatefulSet](t, found[0])
}

// By default there is no ledger. With one, neither scale sets nor the doctor nor Deployments take it for a controller.
func TestTheLedgerIsNoController(t *testing.T) {
	t.Parallel()
	check(t, "objects by default", len(render(t, controller)["history.yaml"]), 0)
	rendered := render(t, controller, ledger)
	set, manager := historyOf(t, rendered), one[appsv1.Deployment](t, rendered, "deployment.yaml")
	check(t, "part-of", set.Labels["app.kubernetes.io/part-of"] == manager.Labels["app.kubernetes.io/part-of"], false)
	check(t, "what doctor and plugin find it by",
		set.Labels["app.kubernetes.io/part-of"]+" "+set.Labels["app.kubernetes.io/component"], "harrier history")
	selects := func(selector map[string]string, pod map[string]string) bool {
		return labels.SelectorFromSet(selector).Matches(labels.Set(pod))
	}
	check(t, "it selects its own pod", selects(set.Spec.Selector.MatchLabels, set.Spec.Template.Labels), true)
	check(t, "it selects the controller's", selects(set.Spec.Selector.MatchLabels, manager.Spec.Template.Labels), false)
	check(t, "the controller selects its pod", selects(manager.Spec.Selector.MatchLabels, set.Spec.Template.Labels), false)
}

// By default nothing leads to the page and the API: there is no Service, the only port of the pod is that of probes and
// metrics, and rows are on the loopback that is the program's default.
func TestTheLedgerIsClosed(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, ledger)
	check(t, "Services", len(ofKind(rendered, "Service")), 0)
	container := historyOf(t, rendered).Spec.Template.Spec.Containers[0]
	check(t, "ports", len(container.Ports), 1)
	check(t, "port", fmt.Sprint(container.Ports[0].Name, container.Ports[0].ContainerPort), "metrics8091")
	for _, argument := range container.Args {
		check(t, argument, strings.HasPrefix(argument, "--address"), false)
	}
	for name, probe := range map[string]*corev1.Probe{"liveness": container.LivenessProbe,
		"readiness": container.ReadinessProbe, "startup": container.StartupProbe} {
		check(t, name, probe.HTTPGet.Port.String(), "metrics")
	}
	said, stderr, err := controller.with("--dry-run=client").run(t, "install", ledger)
	check(t, stderr, err, error(nil))
	checkContains(t, said, "port-forward pod/arc-gha-rs-controller-history-0 8090")
	checkContains(t, said, "--resource=pods/portforward --resource-name=arc-gha-rs-controller-history-0")
	hosts := render(t, controller, ledger, "history: {hosts: [history.example.com, other.example.com]}")
	checkContains(t, strings.Join(historyOf(t, hosts).Spec.Template.Spec.Containers[0].Args, " "),
		"--hosts=history.example.com,other.example.com")
}

// TestTheLedgerRunsWhereACompanyWantsIt: what is set for it counts; nodes and taints are else those of the controller.
func TestTheLedgerRunsWhereACompanyWantsIt(t *testing.T) {
	t.Parallel()
	of := func(values ...string) corev1.PodTemplateSpec {
		return historyOf(t, render(t, controller, append([]string{ledger}, values...)...)).Spec.Template
	}
	memory := func(of corev1.PodTemplateSpec) string {
		container := of.Spec.Containers[0]
		for _, variable := range container.Env {
			if variable.Name == "GOMEMLIMIT" {
				if variable.ValueFrom != nil {
					return container.Resources.Limits.Memory().String() + " of " + variable.ValueFrom.ResourceFieldRef.Resource
				}
				return container.Resources.Limits.Memory().String() + " " + variable.Value
			}
		}
		return container.Resources.Limits.Memory().String()
	}
	check(t, "memory by default", memory(of()), "512Mi 450MiB")
	check(t, "its own", memory(of("history: {resources: {limits: {memory: 2Gi}}}")), "2Gi 1802MiB")
	check(t, "in bytes", memory(of("history: {resources: {limits: {memory: 1e9}}}")), "1G of limits.memory")
	check(t, "none", memory(of("history: {resources: {limits: {memory: null}}}")), "0")
	check(t, "requests stay", of("history: {resources: {limits: {memory: 2Gi}}}").Spec.Containers[0].Resources.Requests.Cpu().String(), "50m")
	const controllers = "nodeSelector: {pool: system}\ntolerations: [{key: system}]"
	shared, own := of(controllers), of(controllers, "history: {nodeSelector: {pool: data}, tolerations: [{key: data}], "+
		"affinity: {nodeAffinity: {}}, podAnnotations: {mesh: false}}")
	check(t, "the controller's nodes", shared.Spec.NodeSelector["pool"]+shared.Spec.Tolerations[0].Key, "systemsystem")
	check(t, "its own nodes", own.Spec.NodeSelector["pool"]+own.Spec.NodeSelector["kubernetes.io/os"]+own.Spec.Tolerations[0].Key,
		"datalinuxdata")
	check(t, "affinity", own.Spec.Affinity.NodeAffinity != nil, true)
	check(t, "annotations", own.Annotations["mesh"], "false")
}

// TestTheLedgersIngressLeadsToWhatIsOpen, by the names that the ledger answers to.
func TestTheLedgersIngressLeadsToWhatIsOpen(t *testing.T) {
	t.Parallel()
	const ingress = "history: {ingress: {enabled: true, className: nginx, annotations: {a: 1}, tlsSecret: cert}}"
	const hosts = "history: {hosts: [history.example.com, other.example.com]}"
	rendered := render(t, controller, ledger, ingress, hosts, "history: {auth: {mode: token, tlsSecret: t}}")
	got := decode[networkingv1.Ingress](t, ofKind(rendered, "Ingress")[0])
	service := decode[corev1.Service](t, ofKind(rendered, "Service")[0])
	check(t, "class", *got.Spec.IngressClassName+got.Annotations["a"]+got.Spec.TLS[0].SecretName, "nginx1cert")
	check(t, "rules", len(got.Spec.Rules), 2)
	for i, host := range []string{"history.example.com", "other.example.com"} {
		backend := got.Spec.Rules[i].HTTP.Paths[0].Backend.Service
		check(t, host, got.Spec.Rules[i].Host+" "+backend.Name+" "+backend.Port.Name, host+" "+service.Name+" "+service.Spec.Ports[0].Name)
	}
	for values, want := range map[string]string{ingress + "\n" + "": "history.auth.mode",
		ingress[:len(ingress)-1] + ", auth: {mode: token}}": "history.hosts"} {
		_, stderr, err := controller.with("--dry-run=client").run(t, "install", ledger, values)
		check(t, values, err != nil, true)
		checkContains(t, stderr, want)
	}
}

// Opened on purpose, it has a Service and the right to ask who asks; by default, and with whatever would let somebody in
// whom nobody knows, it has neither.
func TestTheLedgerIsOpenedOnPurpose(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"mode: token": "--hosts=arc-gha-rs-controller-history,arc-gha-rs-controller-history.arc-systems," +
			"arc-gha-rs-controller-history.arc-systems.svc,arc-gha-rs-controller-history.arc-systems.svc.cluster.local " +
			"--auth=token --open-address=:8092 --audience=arc-gha-rs-controller-history.arc-systems.svc",
		"mode: token, tlsSecret: t": "--tls-directory=/tls",
		"mode: proxy, proxy: {secretName: s}": "--auth=proxy --open-address=:8092 --proxy-user-header=X-Forwarded-User " +
			"--proxy-groups-header=X-Forwarded-Groups --proxy-secret-file=/proxy/secret",
		"mode: proxy, tlsSecret: t, proxy: {clientCASecret: c, userHeader: X-User}": "--proxy-user-header=X-User " +
			"--proxy-groups-header=X-Forwarded-Groups --proxy-ca-file=/proxy/ca.crt --tls-directory=/tls",
	} {
		rendered := render(t, controller, ledger, "history: {allowFrom: [{podSelector: {}}], "+
			"networkPolicy: {enabled: true}, auth: {"+values+"}}")
		set := historyOf(t, rendered)
		checkContains(t, strings.Join(set.Spec.Template.Spec.Containers[0].Args, " "), want)
		service := decode[corev1.Service](t, ofKind(rendered, "Service")[0])
		check(t, values+": the Service selects the pod",
			labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(set.Spec.Template.Labels)), true)
		policy := decode[networkingv1.NetworkPolicy](t, ofKind(rendered, "NetworkPolicy")[0])
		check(t, values+": port", policy.Spec.Ingress[1].Ports[0].Port.String(), "8092")
		check(t, values+": peers", len(policy.Spec.Ingress[1].From), 1)
		checkContains(t, strings.Join(ofKind(rendered, "ClusterRole"), ""), "subjectaccessreviews")
		check(t, values+": it asks whose token", strings.Contains(strings.Join(ofKind(rendered, "ClusterRole"), ""),
			"tokenreviews"), strings.HasPrefix(values, "mode: token"))
	}
	check(t, "rights of a closed ledger", strings.Contains(strings.Join(render(t, controller, ledger)["history.yaml"], ""),
		"reviews"), false)
	for values, want := range map[string]string{
		"auth: {mode: none}": "history", "auth: {mode: proxy}": "anybody can send a header",
		"auth: {mode: proxy, proxy: {secretName: s, clientCASecret: c}}": "one of",
		"auth: {mode: proxy, proxy: {clientCASecret: c}}":                "without TLS",
		"allowFrom: [{podSelector: {}}]":                                 "set history.auth.mode",
		"auth: {tlsSecret: t}":                                           "set history.auth.mode",
	} {
		checkContains(t, refusal(t, controller, "history: {enabled: true, "+values+"}"), want)
	}
	checkContains(t, refusal(t, controller, "history: {enabled: true, auth: {mode: token}}",
		"{rbac: {clusterRoles: false}, crds: {install: false}, flags: {watchSingleNamespace: arc-runners}}"), "stays closed")
}

// The pod's name is fixed, and short enough for the label that Kubernetes makes of it and a hash of ten characters.
func TestTheLedgersPodHasAName(t *testing.T) {
	t.Parallel()
	check(t, "name", historyOf(t, render(t, controller, ledger)).Name, "arc-gha-rs-controller-history")
	names := map[string]bool{}
	for _, end := range []string{"a", "b"} {
		long := historyOf(t, render(t, controller, ledger, "fullnameOverride: "+strings.Repeat("x", 52)+end))
		check(t, "length of "+long.Name, len(long.Name) <= 52, true)
		names[long.Name] = true
	}
	check(t, "names of two releases", len(names), 2)
}

// A NetworkPolicy of its own, or that of the controller, admits readers of metrics.
func TestTheLedgersNetworkPolicy(t *testing.T) {
	t.Parallel()
	const from = "[{podSelector: {matchLabels: {app: %s}}}]"
	global := fmt.Sprintf("networkPolicy: {enabled: true, metricsFrom: "+from+"}", "prometheus")
	own := fmt.Sprintf("history: {networkPolicy: {enabled: true, metricsFrom: "+from+"}}", "other")
	check(t, "policies by default", len(ofKind(render(t, controller, ledger), "NetworkPolicy")), 0)
	for want, values := range map[string][]string{"prometheus": {ledger, global}, "other": {ledger, global, own}} {
		for _, rendered := range []manifests{render(t, controller, values...),
			render(t, controller, ledger, values[len(values)-1])} {
			policy := decode[networkingv1.NetworkPolicy](t, ofKind(rendered, "NetworkPolicy")[0])
			check(t, want+": rules", len(policy.Spec.Ingress), 1)
			check(t, want+": port", policy.Spec.Ingress[0].Ports[0].Port.String(), "8091")
			check(t, want+": from", policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels["app"], want)
			check(t, want+": it selects the pod", labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).
				Matches(labels.Set(historyOf(t, rendered).Spec.Template.Labels)), true)
		}
	}
}

// The ledger reads the sources of its rows, and no Secret.
func TestTheLedgerOnlyReads(t *testing.T) {
	t.Parallel()
	for title, test := range map[string]struct {
		values []string
		want   map[string][]string
	}{
		"all namespaces": {nil, map[string][]string{
			"list": {"autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets", "pods"},
			"get":  {"namespaces", "nodes"},
		}},
		"one": {[]string{"flags: {watchSingleNamespace: arc-runners}"}, map[string][]string{
			"list": {"autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets", "pods"},
			"get":  {"namespaces"},
		}},
	} {
		rendered := render(t, controller, append(test.values, ledger)...)
		got := map[string][]string{}
		for _, document := range append(ofKind(rendered, "ClusterRole"), ofKind(rendered, "Role")...) {
			for _, rule := range decode[rbacv1.ClusterRole](t, document).Rules {
				for _, verb := range rule.Verbs {
					got[verb] = slices.Sorted(slices.Values(append(got[verb], rule.Resources...)))
				}
			}
		}
		check(t, title+": it may watch what it lists", strings.Join(got["watch"], " "), strings.Join(got["list"], " "))
		delete(got, "watch")
		check(t, title+": verbs", len(got), len(test.want))
		for verb := range maps.Keys(test.want) {
			check(t, title+": "+verb, strings.Join(got[verb], " "), strings.Join(test.want[verb], " "))
		}
	}
}

// The ledger has one database: on a claim that outlives the release, or PostgreSQL by a Secret's key.
func TestTheLedgersDatabase(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, ledger,
		"history: {storage: {size: 20Gi, storageClassName: fast}, retention: 30d}")
	claim := decode[corev1.PersistentVolumeClaim](t, ofKind(rendered, "PersistentVolumeClaim")[0])
	check(t, "size", claim.Spec.Resources.Requests.Storage().String(), "20Gi")
	check(t, "class", *claim.Spec.StorageClassName, "fast")
	check(t, "policy", claim.Annotations["helm.sh/resource-policy"], "keep")
	without := render(t, controller, ledger, "history: {storage: {size: 1Gi, emptyDir: true}}")
	check(t, "claims without one", len(ofKind(without, "PersistentVolumeClaim")), 0)
	for _, volume := range historyOf(t, without).Spec.Template.Spec.Volumes {
		if volume.Name == "data" {
			check(t, "limit of the directory", volume.EmptyDir.SizeLimit.String(), "1Gi")
		}
	}
	container := historyOf(t, rendered).Spec.Template.Spec.Containers[0]
	checkContains(t, strings.Join(container.Args, " "), "--retention=30d")

	const postgres = "history: {database: {urlSecret: {name: db}}, prices: {cpuHour: 0.031, gibHour: 0.004}}"
	rendered = render(t, controller, ledger, postgres)
	check(t, "claims with PostgreSQL", len(ofKind(rendered, "PersistentVolumeClaim")), 0)
	container = historyOf(t, rendered).Spec.Template.Spec.Containers[0]
	check(t, "mounts", len(container.VolumeMounts), 2)
	checkContains(t, strings.Join(container.Args, " "), "--price-cpu-hour=0.031 --price-gib-hour=0.004")
	var found bool
	for _, variable := range container.Env {
		if variable.Name == "HISTORY_DATABASE_URL" {
			found = true
			check(t, "Secret", variable.ValueFrom.SecretKeyRef.Name+"/"+variable.ValueFrom.SecretKeyRef.Key, "db/url")
		}
	}
	check(t, "it has a URL", found, true)
}

func TestTheLedgerRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"retention: 90", "retention: soon", "prices: {cpuHour: -1}", "colour: red",
		"hosts: ['http://x']", "hosts: ['x:80']", "hosts: ['a,b']", "hosts: [1]"} {
		checkContains(t, refusal(t, controller, "history: {enabled: true, "+values+"}"), "history")
	}
}

// Where the chart's monitors are on, they find the ledger's metrics at the port of its pods, and only if there is a
// ledger.
func TestMonitorsReadTheLedger(t *testing.T) {
	t.Parallel()
	for kind, file := range map[string]string{"podMonitor": "podmonitor.yaml",
		"serviceMonitor": "servicemonitor.yaml"} {
		on := metricsOn + "monitoring: {" + kind + ": {enabled: true}}\n"
		check(t, kind+" without a ledger",
			strings.Contains(strings.Join(render(t, controller, on)[file], ""), "ledger"), false)
		rendered := render(t, controller, on, ledger)
		pod := labels.Set(historyOf(t, rendered).Spec.Template.Labels)
		found := 0
		for _, document := range rendered[file] {
			monitor := decode[unstructured.Unstructured](t, document)
			if !strings.HasSuffix(monitor.GetName(), "-ledger") {
				continue
			}
			found++
			path := map[string][]string{"PodMonitor": {"spec", "selector", "matchLabels"},
				"Service": {"spec", "selector"}}[monitor.GetKind()]
			if path == nil {
				checkContains(t, document, "port: metrics")
				continue
			}
			selector, _, err := unstructured.NestedStringMap(monitor.Object, path...)
			check(t, "error", err, error(nil))
			check(t, kind+" finds its pod", labels.SelectorFromSet(selector).Matches(pod), true)
			checkContains(t, document, "metrics")
		}
		check(t, kind+"s of the ledger", found, map[string]int{"podMonitor": 1, "serviceMonitor": 2}[kind])
	}
}
