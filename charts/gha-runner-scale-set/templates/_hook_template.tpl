{{/*
The template of job pods in the kubernetes modes. The runner's container hooks merge the file that
ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE names into every pod they start; the chart mounts it from a ConfigMap, its own
or the user's.
*/}}

{{/* The chart's own template; empty without one. JSON. */}}
{{- define "gha-runner-scale-set.hook-template" -}}
{{- (include "gha-runner-scale-set.without-nulls" (.Values.containerMode | default dict).kubernetesModeHookTemplate | fromJson).value | default dict | toJson }}
{{- end }}

{{/* Where it comes from: name and key of a ConfigMap; empty without a template. JSON. */}}
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

{{/* Beside the hooks, where actions-runner-controller's experimental chart has it. */}}
{{- define "gha-runner-scale-set.hook-template-path" -}}
{{- if eq (include "gha-runner-scale-set.container-mode" .) "kubernetes" -}}
/home/runner/k8s/hook-template.yaml
{{- else -}}
/home/runner/k8s-novolume/hook-template.yaml
{{- end }}
{{- end }}

{{/*
Annotation of runner pods that changes with the chart's own template: a pod keeps the file it was started with, so idle
runners have to be replaced to get a new one. JSON.
*/}}
{{- define "gha-runner-scale-set.hook-template-annotation" -}}
{{- $annotation := dict }}
{{- with include "gha-runner-scale-set.hook-template" . | fromJson }}
{{- $_ := set $annotation "checksum/hook-template" (toJson . | sha256sum | trunc 63) }}
{{- end }}
{{- toJson $annotation }}
{{- end }}

{{/* Given in a mode without hooks, or twice, it would be ignored without a word. */}}
{{- define "gha-runner-scale-set.validate-hook-template" -}}
{{- $from := (.Values.containerMode | default dict).kubernetesModeHookTemplateFrom }}
{{- $given := dict "kubernetesModeHookTemplate" (include "gha-runner-scale-set.hook-template" . | fromJson) "kubernetesModeHookTemplateFrom" $from }}
{{- range $key := list "kubernetesModeHookTemplate" "kubernetesModeHookTemplateFrom" }}
{{- if and (get $given $key) (not (include "gha-runner-scale-set.is-kubernetes-mode" $)) }}
{{- fail (printf "containerMode.%s has an effect only where containerMode.type is kubernetes or kubernetes-novolume" $key) }}
{{- end }}
{{- end }}
{{- if and $given.kubernetesModeHookTemplate $from }}
{{- fail "containerMode.kubernetesModeHookTemplate and containerMode.kubernetesModeHookTemplateFrom exclude each other" }}
{{- end }}
{{- end }}
