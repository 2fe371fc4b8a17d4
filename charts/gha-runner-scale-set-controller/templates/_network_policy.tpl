{{/*
A NetworkPolicy that admits only readers of metrics; NetworkPolicies never apply to the kubelet's probes. Takes root,
name, pods (the labels that select them), metricsAddr (empty without metrics) unless it is the value networkPolicy, policy, and more (port and from).
*/}}
{{- define "gha-runner-scale-set-controller.network-policy" -}}
{{- $policy := (include "gha-runner-scale-set-controller.without-nulls" (.policy | default .root.Values.networkPolicy) | fromJson).value -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name | quote }}
  namespace: {{ include "gha-runner-scale-set-controller.namespace" .root | quote }}
  labels:
    {{- include "gha-runner-scale-set-controller.labels" .root | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- toYaml .pods | nindent 6 }}
  policyTypes:
    - Ingress
    {{- if $policy.egress }}
    - Egress
    {{- end }}
  {{- $port := include "gha-runner-scale-set-controller.port" (.metricsAddr | default "") }}
  {{- if eq $port "0" }}
  ingress: []
  {{- else }}
  ingress:
    - ports:
        - port: {{ $port }}
          protocol: TCP
      {{- with $policy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- end }}
  {{- if .more }}
    - ports:
        - port: {{ .more.port }}
          protocol: TCP
      {{- with (include "gha-runner-scale-set-controller.without-nulls" .more.from | fromJson).value }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- end }}
  {{- with $policy.egress }}
  egress:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
