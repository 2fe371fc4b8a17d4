package prometheus

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Monitor is the part of a PodMonitor that the chart uses.
type Monitor struct {
	Metadata struct{ Name string }
	Spec     struct {
		Selector            struct{ MatchLabels map[string]string }
		PodTargetLabels     []string
		PodMetricsEndpoints []Endpoint
	}
}

// Endpoint is the way in which a Monitor reads each pod.
type Endpoint struct {
	Port, Path, Interval, Scheme   string
	HonorLabels                    bool
	Relabelings, MetricRelabelings []Relabeling
}

// Relabeling is a rule in the operator's form.
type Relabeling struct {
	SourceLabels                        []string
	Action, Regex                       string
	Separator, Replacement, TargetLabel *string
}

// Target is a pod and the address of its metrics.
type Target struct {
	Pod     *corev1.Pod
	Address string
}

// Monitors decodes the rendered monitors of a chart. It fails if one doesn't read exactly one port.
func Monitors(rendered string) ([]Monitor, error) {
	var monitors []Monitor
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		var m Monitor
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			return nil, fmt.Errorf("read a monitor: %w", err)
		}
		if m.Metadata.Name == "" {
			continue // a comment
		}
		if len(m.Spec.PodMetricsEndpoints) != 1 {
			return nil, fmt.Errorf("monitor %q has %d endpoints, want one", m.Metadata.Name,
				len(m.Spec.PodMetricsEndpoints))
		}
		monitors = append(monitors, m)
	}
	return monitors, nil
}

// ScrapeConfig returns the operator's configuration for the monitor, without the discovery of pods: Debian's Prometheus
// is built without Kubernetes. The caller adds settings of TLS and credentials.
func (m *Monitor) ScrapeConfig(targets []Target) map[string]any {
	endpoint := m.Spec.PodMetricsEndpoints[0]
	rules := []any{
		rule{"source_labels": []string{podMeta("namespace")}, "target_label": "namespace"},
		rule{"source_labels": []string{podMeta("pod_name")}, "target_label": "pod"},
	}
	for _, label := range m.Spec.PodTargetLabels {
		rules = append(rules, rule{
			"source_labels": []string{podMeta("pod_label_" + sanitized(label))},
			"regex":         "(.+)",
			"target_label":  sanitized(label),
		})
	}
	config := map[string]any{
		"job_name": m.Metadata.Name, "metrics_path": endpoint.Path, "honor_labels": endpoint.HonorLabels,
		"static_configs":         Discovered(targets, endpoint.Port),
		"relabel_configs":        append(rules, ofOperator(endpoint.Relabelings)...),
		"metric_relabel_configs": ofOperator(endpoint.MetricRelabelings),
	}
	for key, value := range map[string]string{"scrape_interval": endpoint.Interval, "scheme": endpoint.Scheme} {
		if value != "" {
			config[key] = value
		}
	}
	return config
}

// rule is one of a relabel_config.
type rule map[string]any

func ofOperator(relabelings []Relabeling) []any {
	rules := []any{}
	for _, from := range relabelings {
		to := rule{}
		if len(from.SourceLabels) > 0 {
			to["source_labels"] = from.SourceLabels
		}
		for key, value := range map[string]string{"action": from.Action, "regex": from.Regex} {
			if value != "" {
				to[key] = value
			}
		}
		for key, value := range map[string]*string{
			"separator":    from.Separator,
			"replacement":  from.Replacement,
			"target_label": from.TargetLabel,
		} {
			if value != nil {
				to[key] = *value
			}
		}
		rules = append(rules, to)
	}
	return rules
}

// Discovered returns static_configs with the labels that Prometheus' discovery would give the targets. Rules may use
// them.
func Discovered(targets []Target, port string) (configs []any) {
	for _, target := range targets {
		labels := map[string]string{
			podMeta("namespace"): target.Pod.Namespace, podMeta("pod_name"): target.Pod.Name,
			podMeta("pod_container_port_name"): port,
		}
		for key, value := range target.Pod.Labels {
			labels[podMeta("pod_label_"+sanitized(key))] = value
		}
		configs = append(configs, map[string]any{"targets": []string{target.Address}, "labels": labels})
	}
	return configs
}

func podMeta(name string) string { return "__meta_kubernetes_" + name }

var unfit = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// sanitized returns Prometheus' name for a label of a pod.
func sanitized(label string) string { return unfit.ReplaceAllString(label, "_") }
