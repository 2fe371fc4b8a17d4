{{/*
What PodMonitors, ServiceMonitors and access to metrics have in common, and the alerts.
*/}}

{{/* "true" if the controller's metrics require a token. */}}
{{- define "gha-runner-scale-set-controller.metrics-secure" -}}
{{- if .Values.metrics }}{{ if .Values.metrics.secure }}true{{ end }}{{ end }}
{{- end }}

{{- define "gha-runner-scale-set-controller.metrics-reader" -}}
{{ include "gha-runner-scale-set-controller.fullname" . | trunc 53 | trimSuffix "-" | trimSuffix "." }}-metrics-reader
{{- end }}

{{/* "true" if a monitor is enabled. Fails if it can't work, or would count everything twice. */}}
{{- define "gha-runner-scale-set-controller.monitored" -}}
{{- $monitoring := .Values.monitoring | default dict }}
{{- $pods := ($monitoring.podMonitor | default dict).enabled }}
{{- $services := ($monitoring.serviceMonitor | default dict).enabled }}
{{- if and $pods $services }}
{{- fail "monitoring.podMonitor and monitoring.serviceMonitor would both scrape all metrics: enable only one of them" }}
{{- end }}
{{- if or $pods $services }}
{{- if not .Values.metrics }}
{{- include "gha-runner-scale-set-controller.refuse-without-metrics" (ternary "podMonitor" "serviceMonitor" (not (empty $pods))) }}
{{- end }}
{{- print "true" }}
{{- end }}
{{- end }}

{{/* Takes the key below monitoring that can't work. */}}
{{- define "gha-runner-scale-set-controller.refuse-without-metrics" -}}
{{- fail (printf "monitoring.%s needs metrics: set metrics.controllerManagerAddr, listenerAddr and listenerEndpoint" .) }}
{{- end }}

{{/*
The alerts of rules/alerts.yaml. Without the manager's metrics HarrierManagerDown would fire for ever. The chart's monitors
give what they scrape the pod's namespace, so the alert can name it and fires although another manager of the cluster is
scraped. A scrape that the user has set up may lack this label.
*/}}
{{- define "gha-runner-scale-set-controller.alerts" -}}
{{- if or (not .Values.metrics) (eq (toString (.Values.metrics | default dict).controllerManagerAddr) "0") }}
{{- include "gha-runner-scale-set-controller.refuse-without-metrics" "prometheusRule" }}
{{- end }}
{{- $runbook := .Values.monitoring.prometheusRule.runbookUrl | default "https://github.com/harrier-ci/harrier/blob/main/docs/alerts.md" }}
{{- $alerts := .Files.Get "rules/alerts.yaml" | replace "RUNBOOK#" (printf "%s#" $runbook) }}
{{- if include "gha-runner-scale-set-controller.monitored" . }}
{{- $own := printf "gha_controller_build_info{namespace=%q}" (include "gha-runner-scale-set-controller.namespace" .) }}
{{- $alerts = replace "absent(gha_controller_build_info)" (printf "absent(%s)" $own) $alerts }}
{{- end }}
{{- $alerts }}
{{- end }}

{{/*
The things that are read, as a JSON list: suffix of the monitor's name, path, name of the port, labels of the pods, those of them
that their metrics get, address, secure.
*/}}
{{- define "gha-runner-scale-set-controller.monitor-targets" -}}
{{- $ledger := list }}
{{- if (.Values.history | default dict).enabled }}
{{- $ledger = list (dict "suffix" "ledger" "path" "/metrics" "address" ":8091"
    "labels" (include "gha-runner-scale-set-controller.history-selector" . | fromYaml) "secure" "") }}
{{- end }}
{{- list
  (dict "suffix" "manager" "path" "/metrics" "address" .Values.metrics.controllerManagerAddr
    "labels" (include "gha-runner-scale-set-controller.pod-selector" . | fromYaml)
    "secure" (include "gha-runner-scale-set-controller.metrics-secure" .))
  (dict "suffix" "listeners" "path" (.Values.metrics.listenerEndpoint | default "/metrics") "address" .Values.metrics.listenerAddr
    "labels" (dict "app.kubernetes.io/part-of" "gha-runner-scale-set" "app.kubernetes.io/component" "runner-scale-set-listener")
    "podLabels" (list "actions.github.com/scale-set-name" "actions.github.com/scale-set-namespace")
    "secure" "")
  | concat $ledger | toJson }}
{{- end }}

{{/* Head of an object for monitoring. Takes root, apiVersion, kind, suffix and labels. */}}
{{- define "gha-runner-scale-set-controller.monitor-head" -}}
apiVersion: {{ .apiVersion }}
kind: {{ .kind }}
metadata:
  name: {{ include "gha-runner-scale-set-controller.fullname" .root | trunc 53 | trimSuffix "-" | trimSuffix "." }}-{{ .suffix }}
  namespace: {{ include "gha-runner-scale-set-controller.namespace" .root | quote }}
  labels:
    {{- include "gha-runner-scale-set-controller.labels-and" (dict "root" .root "more" .labels) | nindent 4 }}
{{- end }}

{{/* How a target is scraped. Takes root, target and the monitor's values. */}}
{{- define "gha-runner-scale-set-controller.monitor-endpoint" -}}
- port: {{ .target.port | default "metrics" }}
  path: {{ .target.path }}
  # Metrics name their scale set by name and namespace. Without this the latter would be called exported_namespace.
  honorLabels: true
  interval: {{ .monitor.interval | default "30s" }}
  {{- $rules := (include "gha-runner-scale-set-controller.without-nulls" (pick .monitor "relabelings" "metricRelabelings") | fromJson).value }}
  {{- range $key, $given := $rules }}
  {{- if $given }}
  {{ $key }}:
    {{- toYaml $given | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- if .target.secure }}
  scheme: https
  authorization:
    credentials:
      name: {{ include "gha-runner-scale-set-controller.metrics-reader" .root }}
      key: token
  tlsConfig:
    {{- with .root.Values.metrics.certificateSecret }}
    ca:
      secret:
        name: {{ . | quote }}
        key: ca.crt
    serverName: {{ include "gha-runner-scale-set-controller.fullname" $.root }}.{{ include "gha-runner-scale-set-controller.namespace" $.root }}.svc
    {{- else }}
    # The certificate is made anew whenever the controller starts.
    insecureSkipVerify: true
    {{- end }}
  {{- end }}
{{- end }}
