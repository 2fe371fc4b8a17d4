{{/*
API priority and fairness: which share of the API server's requests in flight the controller and its listeners have. Without it they
share the level workload-low with the accounts of all workloads in the cluster.
*/}}

{{/* Name of a FlowSchema or PriorityLevelConfiguration, which are cluster-scoped. Takes root and part. */}}
{{- define "gha-runner-scale-set-controller.priority-name" -}}
{{- include "gha-runner-scale-set-controller.cluster-wide-name"
      (dict "root" .root "name" (printf "%s-%s" (include "gha-runner-scale-set-controller.fullname" .root) .part)) }}
{{- end }}

{{/* Takes root and part. */}}
{{- define "gha-runner-scale-set-controller.priority-metadata" -}}
name: {{ include "gha-runner-scale-set-controller.priority-name" . | quote }}
labels:
  {{- include "gha-runner-scale-set-controller.labels" .root | nindent 2 }}
{{- end }}

{{/* The controller's account as a subject of a FlowSchema. */}}
{{- define "gha-runner-scale-set-controller.priority-manager" -}}
- kind: ServiceAccount
  serviceAccount:
    name: {{ include "gha-runner-scale-set-controller.service-account-name" . | quote }}
    namespace: {{ include "gha-runner-scale-set-controller.namespace" . | quote }}
{{- end }}
