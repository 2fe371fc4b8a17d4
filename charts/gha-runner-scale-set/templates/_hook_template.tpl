{{/*
The template of job pods in the kubernetes modes. The runner's container hooks merge the file that
ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE names into every pod they start; the chart mounts it from a ConfigMap, its own
or the user's.
*/}}

{{/* The user's template in the values; empty without one. JSON. */}}
{{- define "gha-runner-scale-set.own-hook-template" -}}
{{- (include "gha-runner-scale-set.without-nulls" (.Values.containerMode | default dict).kubernetesModeHookTemplate | fromJson).value | default dict | toJson }}
{{- end }}

{{/*
"true" if job pods are protected though the user gave no template. A bare `helm template` of actions-runner-controller's chart
renders no template then, and tests of values files rely on that, so the cluster must know our kinds (helm install and upgrade,
Argo CD).
*/}}
{{- define "gha-runner-scale-set.protects-by-default" -}}
{{- $elsewhere := (.Values.containerMode | default dict).kubernetesModeHookTemplateFrom }}
{{- range (include "gha-runner-scale-set.own-runner" . | fromJson).env }}
{{- $elsewhere = or $elsewhere (eq (.name | toString) "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE") }}
{{- end }}
{{- if and (not $elsewhere) (.Capabilities.APIVersions.Has "actions.github.com/v1alpha1") }}true{{ end }}
{{- end }}

{{/*
The chart's template of job pods: the user's, with the labels by which job pods count as the scale set's busy pods, and the
annotations that keep node autoscalers from ending a running job. The user's own keys win. Hooks of all versions take a
template without a spec. Empty without one. JSON.
*/}}
{{- define "gha-runner-scale-set.hook-template" -}}
{{- $own := include "gha-runner-scale-set.own-hook-template" . | fromJson }}
{{- $template := dict }}
{{- if and (include "gha-runner-scale-set.is-kubernetes-mode" .) (or $own (include "gha-runner-scale-set.protects-by-default" .)) }}
{{- $given := ((.Values.containerMode.kubernetesModeHookTemplate | default dict).metadata | default dict) }}
{{- $labels := include "gha-runner-scale-set.protected-labels" . | fromJson }}
{{- $annotations := dict
    "karpenter.sh/do-not-disrupt" (include "gha-runner-scale-set.scalar" .Values.jobProtection | default "true")
    "cluster-autoscaler.kubernetes.io/safe-to-evict" "false" }}
{{- $metadata := dict
    "labels" (include "gha-runner-scale-set.strings" (list $labels $given.labels) | fromJson)
    "annotations" (include "gha-runner-scale-set.strings" (list $annotations $given.annotations) | fromJson) }}
{{- $_ := set $template "metadata" (merge $metadata (omit ($own.metadata | default dict) "labels" "annotations")) }}
{{- $template = merge $template (omit $own "metadata") }}
{{- end }}
{{- toJson $template }}
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
{{- $given := dict "kubernetesModeHookTemplate" (include "gha-runner-scale-set.own-hook-template" . | fromJson) "kubernetesModeHookTemplateFrom" $from }}
{{- range $key := list "kubernetesModeHookTemplate" "kubernetesModeHookTemplateFrom" }}
{{- if and (get $given $key) (not (include "gha-runner-scale-set.is-kubernetes-mode" $)) }}
{{- fail (printf "containerMode.%s has an effect only if containerMode.type is kubernetes or kubernetes-novolume" $key) }}
{{- end }}
{{- end }}
{{- if and $given.kubernetesModeHookTemplate $from }}
{{- fail "containerMode.kubernetesModeHookTemplate and containerMode.kubernetesModeHookTemplateFrom are mutually exclusive: set one of them" }}
{{- end }}
{{- end }}
