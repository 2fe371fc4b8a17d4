package charts

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const metricsOn = "metrics:\n  controllerManagerAddr: \":8080\"\n  listenerAddr: \":8080\"\n  listenerEndpoint: /metrics\n"

// Nothing for Prometheus or Grafana is rendered unless it is asked for: a cluster may lack the operator's kinds.
func TestMonitoringIsOffByDefault(t *testing.T) {
	t.Parallel()
	rendered := render(t, controller, metricsOn)
	for _, template := range []string{"podmonitor.yaml", "prometheusrule.yaml", "dashboards.yaml"} {
		if len(rendered[template]) > 0 {
			t.Errorf("%s is rendered", template)
		}
	}
}

func TestPodMonitorsKeepTheNamespaceOfScaleSets(t *testing.T) {
	t.Parallel()
	text := strings.Join(render(t, controller, metricsOn+"monitoring:\n  podMonitor:\n    enabled: true\n    labels: {release: prometheus}\n")["podmonitor.yaml"], "\n")
	if got := strings.Count(text, "kind: PodMonitor"); got != 2 {
		t.Errorf("%d PodMonitors, want one for the controller and one for listeners", got)
	}
	for _, want := range []string{"honorLabels: true", "port: metrics", "release: prometheus", "app.kubernetes.io/component: runner-scale-set-listener"} {
		checkContains(t, text, want)
	}
}

func TestAlertsLinkToTheRunbook(t *testing.T) {
	t.Parallel()
	text := strings.Join(render(t, controller, "monitoring:\n  prometheusRule:\n    enabled: true\n    runbookUrl: https://wiki.example.com/harrier\n")["prometheusrule.yaml"], "\n")
	checkContains(t, text, "runbook_url: https://wiki.example.com/harrier#harrierlistenerdeaf")
	if strings.Contains(text, "RUNBOOK#") {
		t.Error("an alert links nowhere")
	}
}

func TestDashboardsAreAConfigMap(t *testing.T) {
	t.Parallel()
	got := one[corev1.ConfigMap](t, render(t, controller, "monitoring:\n  dashboards:\n    enabled: true\n"), "dashboards.yaml")
	if len(got.Data) != 3 || got.Labels["grafana_dashboard"] != "1" {
		t.Errorf("%d dashboards with labels %v, want three with the sidecar's", len(got.Data), got.Labels)
	}
}

func TestLabelsOfListenersMetricsAndPodsAreFlags(t *testing.T) {
	t.Parallel()
	got := strings.Join(manager(t, metricsOn+"  listenerLabels: arc\nflags:\n  jobPodMetadata: false\n  jobPodProtection: false\n").Args, " ")
	for _, want := range []string{"--listener-metrics-labels=arc", "--job-pod-metadata=false", "--job-pod-protection=false"} {
		checkContains(t, got, want)
	}
	if args := strings.Join(manager(t).Args, " "); strings.Contains(args, "job-pod") || strings.Contains(args, "metrics-labels") {
		t.Errorf("args by default %s", args)
	}
}
