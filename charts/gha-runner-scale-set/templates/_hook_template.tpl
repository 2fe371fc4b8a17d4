{{/*
The template of job pods in the kubernetes modes. The runner's container hooks merge the file that
ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE names into every pod they start; the chart mounts it from a ConfigMap, its own
or the user's.
*/}}

{{/* The chart's own template; empty without one. JSON. */}}
{{- define "gha-runner-scale-set.hook-template" -}}
{{- (include "gha-runner-scale-set.without-nulls" (.Values.containerMode | default dict).kubernetesModeHookTemplate | fromJson).value | default dict | toJson }}
{{- end }}

{{/* Its source: name and key of a ConfigMap; empty without a template. JSON. */}}
{{- define "gha-runner-scale-set.hook-template-source" -}}
{{- $mode := .Values.containerMode | default dict }}
{{- $source := dict }}
{{- if include "gha-runner-scale-set.hook-template" . | fromJson }}
{{- $source = dict "name" (include "gha-runner-scale-set.hook-extension-name" .) "key" "extension" }}
{{- else if $mode.kubernetesModeHookTemplateFrom }}
{{- $source = $mode.kubernetesModeHookTemplateFrom.configMapKeyRef }}
{{- end }}
{{- toJson $source }}
{{- end }}

{{/* Next to the hooks, as in actions-runner-controller's experimental chart. */}}
{{- define "gha-runner-scale-set.hook-template-path" -}}
{{- if eq (include "gha-runner-scale-set.container-mode" .) "kubernetes" -}}
/home/runner/k8s/hook-template.yaml
{{- else -}}
/home/runner/k8s-novolume/hook-template.yaml
{{- end }}
{{- end }}

{{/*
Annotation of runner pods that changes with the chart's own template: a pod keeps the file it was started with, so idle
runners must be replaced to get a new one. JSON.
*/}}
{{- define "gha-runner-scale-set.hook-template-annotation" -}}
{{- $annotation := dict }}
{{- with include "gha-runner-scale-set.hook-template" . | fromJson }}
{{- $_ := set $annotation "checksum/hook-template" (toJson . | sha256sum | trunc 63) }}
{{- end }}
{{- toJson $annotation }}
{{- end }}

{{/* In a mode without hooks, or given twice, it would be silently ignored. */}}
{{- define "gha-runner-scale-set.validate-hook-template" -}}
{{- $from := (.Values.containerMode | default dict).kubernetesModeHookTemplateFrom }}
{{- $given := dict "kubernetesModeHookTemplate" (include "gha-runner-scale-set.hook-template" . | fromJson) "kubernetesModeHookTemplateFrom" $from }}
{{- range $key := list "kubernetesModeHookTemplate" "kubernetesModeHookTemplateFrom" }}
{{- if and (get $given $key) (not (include "gha-runner-scale-set.is-kubernetes-mode" $)) }}
{{- fail (printf "containerMode.%s has an effect only if containerMode.type is kubernetes or kubernetes-novolume" $key) }}
{{- end }}
{{- end }}
{{- if and $given.kubernetesModeHookTemplate $from }}
{{- fail "containerMode.kubernetesModeHookTemplate and containerMode.kubernetesModeHookTemplateFrom are mutually exclusive: set one of them" }}
{{- end }}
{{- end }}
