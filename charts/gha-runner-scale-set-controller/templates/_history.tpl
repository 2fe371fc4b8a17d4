{{/*
Where the ledger's pod runs, and what it may take.
*/}}

{{/* What a field of the ledger says or, if that is empty, the controller's. Takes root and key. JSON: a map with value. */}}
{{- define "gha-runner-scale-set-controller.history-or-own" -}}
{{- $own := get (.root.Values.history | default dict) .key }}
{{- include "gha-runner-scale-set-controller.without-nulls" ($own | default (get .root.Values .key)) }}
{{- end }}

{{/* The environment variable GOMEMLIMIT: 88 % of the memory limit, so that Go collects before the kernel kills. */}}
{{- define "gha-runner-scale-set-controller.history-memory" -}}
{{- $limit := (((.Values.history | default dict).resources | default dict).limits | default dict).memory | toString }}
{{- if regexMatch "^[0-9]+Mi$" $limit }}
- name: GOMEMLIMIT
  value: {{ div (mul 88 (trimSuffix "Mi" $limit | int64)) 100 }}MiB
{{- else if regexMatch "^[0-9]+Gi$" $limit }}
- name: GOMEMLIMIT
  value: {{ div (mul 88 1024 (trimSuffix "Gi" $limit | int64)) 100 }}MiB
{{- else if and $limit (ne $limit "<nil>") }}
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef:
      containerName: history
      resource: limits.memory
{{- end }}
{{- end }}

{{/* The ledger's Ingress, with the names in history.hosts. Takes root, name, labels. */}}
{{- define "gha-runner-scale-set-controller.history-ingress" -}}
{{- $history := .root.Values.history }}
{{- $ingress := $history.ingress | default dict }}
{{- if not (include "gha-runner-scale-set-controller.history-mode" .root) }}
{{- fail "history.ingress.enabled leads to a ledger that is closed: set history.auth.mode to token or proxy" }}
{{- end }}
{{- if not $history.hosts }}
{{- fail "history.ingress.enabled needs history.hosts: the ledger answers to names that it knows" }}
{{- end }}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ .name }}
  namespace: {{ include "gha-runner-scale-set-controller.namespace" .root | quote }}
  labels:
    {{- include "gha-runner-scale-set-controller.strings" (list .root.Values.labels .labels) | nindent 4 }}
  {{- with include "gha-runner-scale-set-controller.strings" (list $ingress.annotations) }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
spec:
  {{- with $ingress.className }}
  ingressClassName: {{ . | quote }}
  {{- end }}
  {{- with $ingress.tlsSecret }}
  tls:
    - secretName: {{ . | quote }}
      hosts:
        {{- toYaml $history.hosts | nindent 8 }}
  {{- end }}
  rules:
    {{- range $history.hosts }}
    - host: {{ . | quote }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ $.name }}
                port:
                  name: {{ ternary "https" "http" (not (empty ($history.auth | default dict).tlsSecret)) }}
    {{- end }}
{{- end }}
