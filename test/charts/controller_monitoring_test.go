package charts

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const metricsOn = "metrics:\n  controllerManagerAddr: \":8080\"\n  listenerAddr: \":8080\"\n  listenerEndpoint: " +
	"/metrics\n"

// Nothing for Prometheus or Grafana is rendered unless it is asked for: a cluster may lack the operator's kinds.
func TestMonitoringIsOffByDefault(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, metricsOn)
	for _, template := range []string{"podmonitor.yaml", "servicemonitor.yaml", "prometheusrule.yaml", "dashboards.yaml",
		"metrics_access.yaml"} {
		if len(rendered[template]) > 0 {
			t.Errorf("%s is rendered", template)
		}
	}
}

func TestPodMonitorsKeepTheNamespaceOfScaleSets(t *testing.T) {
	t.Parallel()
	text := strings.Join(render(t, controller, metricsOn+
		"monitoring:\n  podMonitor:\n    enabled: true\n    labels: {release: prometheus}\n")["podmonitor.yaml"], "\n")
	if got := strings.Count(text, "kind: PodMonitor"); got != 2 {
		t.Errorf("%d PodMonitors, want one for the controller and one for listeners", got)
	}
	for _, want := range []string{"honorLabels: true", "port: metrics", "release: prometheus",
		"app.kubernetes.io/component: runner-scale-set-listener"} {
		checkContains(t, text, want)
	}
}

func TestServiceMonitorsFindTheirServices(t *testing.T) {
	t.Parallel()
	documents := render(t, controller,
		metricsOn+"monitoring:\n  serviceMonitor:\n    enabled: true\n")["servicemonitor.yaml"]
	text := strings.Join(documents, "\n")
	for want, times := range map[string]int{
		"kind: ServiceMonitor": 2, "kind: Service\n": 2, "clusterIP: None": 2, "honorLabels: true": 2,
		"app.kubernetes.io/component: metrics-of-manager": 2, "app.kubernetes.io/component: metrics-of-listeners": 2,
	} {
		if got := strings.Count(text, want); got != times {
			t.Errorf("%d times %q, want %d", got, want, times)
		}
	}
}

// Dashboards made for ARC select by two labels of listeners' pods: metrics of listeners get them. The manager's pod has
// no such labels.
func TestMonitorsGiveMetricsThePodsLabels(t *testing.T) {
	t.Parallel()
	for kind, file := range map[string]string{"podMonitor": "podmonitor.yaml",
		"serviceMonitor": "servicemonitor.yaml"} {
		given := map[string][]string{}
		for _, document := range render(t, controller, metricsOn+"monitoring: {"+kind+": {enabled: true}}\n")[file] {
			found := decode[unstructured.Unstructured](t, document)
			if !strings.HasSuffix(found.GetKind(), "Monitor") {
				continue
			}
			labels, _, err := unstructured.NestedStringSlice(found.Object, "spec", "podTargetLabels")
			check(t, "error", err, error(nil))
			given[strings.TrimPrefix(found.GetName(), "arc-gha-rs-controller-")] = labels
		}
		check(t, kind, given, map[string][]string{
			"manager": nil, "listeners": {"actions.github.com/scale-set-name", "actions.github.com/scale-set-namespace"},
		})
	}
}

func TestMonitorsHaveTheUsersRules(t *testing.T) {
	t.Parallel()
	const rules = "relabelings: [{targetLabel: cluster, replacement: production}], metricRelabelings: " +
		"[{sourceLabels: [namespace], targetLabel: exported_namespace}]"
	for kind, file := range map[string]string{"podMonitor": "podmonitor.yaml",
		"serviceMonitor": "servicemonitor.yaml"} {
		text := strings.Join(render(t, controller,
			metricsOn+"monitoring: {"+kind+": {enabled: true, "+rules+"}}\n")[file], "\n")
		for _, want := range []string{"    relabelings:\n", "targetLabel: cluster", "    metricRelabelings:\n",
			"targetLabel: exported_namespace"} {
			check(t, kind+" has "+want, strings.Count(text, want), 2)
		}
	}
	checkContains(t, refusal(t, controller,
		metricsOn+"monitoring: {podMonitor: {enabled: true, relabelings: [{target_label: cluster}]}}\n"),
		"target_label")
}

func TestMonitorsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	checkContains(t, refusal(t, controller, "monitoring:\n  serviceMonitor:\n    enabled: true\n"),
		"monitoring.serviceMonitor needs metrics")
	checkContains(t, refusal(t, controller, metricsOn+
		"monitoring:\n  serviceMonitor: {enabled: true}\n  podMonitor: {enabled: true}\n"), "enable only one of them")
}

// Without the manager's metrics HarrierManagerDown would fire for ever.
func TestAlertsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	const rule = "monitoring: {prometheusRule: {enabled: true}}\n"
	checkContains(t, refusal(t, controller, rule), "monitoring.prometheusRule needs metrics")
	checkContains(t, refusal(t, controller, strings.Replace(metricsOn, `":8080"`, `"0"`, 1)+rule),
		"monitoring.prometheusRule needs metrics")
}

// If a monitor of the chart labels the metrics with their namespace, the alert fires although another manager of the
// cluster runs.
func TestManagerDownIsAboutTheReleasesManager(t *testing.T) {
	t.Parallel()
	expression := func(monitoring string) string {
		text := render(t, controller,
			metricsOn+"monitoring: {prometheusRule: {enabled: true}"+monitoring+"}\n")["prometheusrule.yaml"][0]
		return regexp.MustCompile(`expr: (absent.*)`).FindStringSubmatch(text)[1]
	}
	check(t, "without a monitor", expression(""), "absent(gha_controller_build_info)")
	for _, kind := range []string{"podMonitor", "serviceMonitor"} {
		check(t, "with "+kind, expression(", "+kind+": {enabled: true}"),
			`absent(gha_controller_build_info{namespace="arc-systems"})`)
	}
}

// Secured metrics need rights for the manager, a role for readers, and an account with a token for the monitor's
// reader.
func TestSecureMetrics(t *testing.T) {
	t.Parallel()
	const secure = metricsOn + "  secure: true\n"
	roles := func(values string) int { return len(render(t, controller, values)["metrics_access.yaml"]) }
	if alone, monitored := roles(secure),
		roles(secure+"monitoring:\n  podMonitor:\n    enabled: true\n"); alone != 3 || monitored != 6 {
		t.Errorf("%d objects, %d with a monitor, want 3 and 6", alone, monitored)
	}
	rendered := render(t, controller, secure+"  certificateSecret: cert\nmonitoring:\n  podMonitor:\n    "+
		"enabled: true\n")
	monitors := rendered["podmonitor.yaml"]
	for _, want := range []string{"scheme: https", "-metrics-reader", "key: token", "key: ca.crt", "serverName: "} {
		checkContains(t, monitors[0], want)
	}
	if strings.Contains(monitors[1], "https") {
		t.Error("listeners are read by HTTPS, which they don't serve")
	}
	for _, want := range []string{"--metrics-secure", "--metrics-cert-path=/metrics-certificate", `secretName: "cert"`,
		"mountPath: /metrics-certificate"} {
		checkContains(t, rendered["deployment.yaml"][0], want)
	}
}

// Restricted to a namespace each, releases of one name in several namespaces have ClusterRoles of their own. The
// reader's account is in the release's namespace.
func TestSecureMetricsOfReleasesOfOneName(t *testing.T) {
	t.Parallel()
	const secure = metricsOn + "  secure: true\nmonitoring: {podMonitor: {enabled: true}}\n"
	names := func(values string) (names []string) {
		for _, document := range render(t, controller, secure, values)["metrics_access.yaml"] {
			found := decode[unstructured.Unstructured](t, document)
			names = append(names, found.GetKind()+" "+strings.TrimPrefix(found.GetName(),
				"arc-gha-rs-controller-metrics-"))
		}
		return names
	}
	check(t, "of all namespaces", names(""), []string{"ServiceAccount reader", "Secret reader",
		"ClusterRole auth", "ClusterRole reader", "ClusterRoleBinding auth", "ClusterRoleBinding reader"})
	check(t, "of one", names(singleNamespace), []string{"ServiceAccount reader", "Secret reader",
		"ClusterRole auth.team-a", "ClusterRole reader.team-a", "ClusterRoleBinding auth.team-a",
		"ClusterRoleBinding reader.team-a"})
}

// The bindings have the names of the roles, and of an existing account.
func TestSecureMetricsBindings(t *testing.T) {
	t.Parallel()
	documents := render(t, controller, metricsOn+"  secure: true\nmonitoring: {podMonitor: {enabled: true}}\n",
		singleNamespace)["metrics_access.yaml"]
	for _, i := range []int{4, 5} {
		bound := decode[rbacv1.ClusterRoleBinding](t, documents[i])
		check(t, "role", bound.RoleRef.Name, bound.Name)
	}
	check(t, "reader", decode[rbacv1.ClusterRoleBinding](t, documents[5]).Subjects[0].Name,
		decode[corev1.ServiceAccount](t, documents[0]).Name)
}

func TestAlertsLinkToTheRunbook(t *testing.T) {
	t.Parallel()
	text := strings.Join(render(t, controller,
		metricsOn+
			"monitoring:\n  prometheusRule:\n    enabled: true\n    runbookUrl: "+
			"https://wiki.example.com/harrier\n")["prometheusrule.yaml"], "\n")
	checkContains(t, text, "runbook_url: https://wiki.example.com/harrier#harrierlistenerdeaf")
	if strings.Contains(text, "RUNBOOK#") {
		t.Error("an alert links nowhere")
	}
}

func TestDashboardsAreAConfigMap(t *testing.T) {
	t.Parallel()
	got := one[corev1.ConfigMap](t, render(t, controller, "monitoring:\n  dashboards:\n    enabled: true\n"),
		"dashboards.yaml")
	if len(got.Data) != 3 || got.Labels["grafana_dashboard"] != "1" {
		t.Errorf("%d dashboards with labels %v, want three with the sidecar's", len(got.Data), got.Labels)
	}
}

func TestLabelsOfListenersMetricsAndPodsAreFlags(t *testing.T) {
	t.Parallel()
	got := strings.Join(manager(t,
		metricsOn+"  listenerLabels: arc\nflags:\n  jobPodMetadata: false\n  jobPodProtection: false\n").Args, " ")
	for _, want := range []string{"--listener-metrics-labels=arc", "--job-pod-metadata=false",
		"--job-pod-protection=false"} {
		checkContains(t, got, want)
	}
	if args := strings.Join(manager(t).Args, " "); strings.Contains(args, "job-pod") ||
		strings.Contains(args, "metrics-labels") {
		t.Errorf("args by default %s", args)
	}
}
