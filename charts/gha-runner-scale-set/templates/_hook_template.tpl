{{/*
The template of job pods in the kubernetes modes. The runner's container hooks merge the file that
ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE names into every pod they start; the chart mounts it from a ConfigMap, with the user's
template in it or the user's own. Where the user has none, neither has the chart, as actions-runner-controller's: the manager
gives runners a file with the same protection of job pods when it makes their pods.
*/}}

{{/* The user's template in the values; empty without one. JSON. */}}
{{- define "gha-runner-scale-set.own-hook-template" -}}
{{- (include "gha-runner-scale-set.without-nulls" (.Values.containerMode | default dict).kubernetesModeHookTemplate | fromJson).value | default dict | toJson }}
{{- end }}

{{/*
The template of job pods in the values, with the labels by which job pods count as the scale set's busy pods, and the
annotations that keep node autoscalers from ending a running job. The user's own keys win. Hooks of all versions take a
template without a spec. Empty without one. JSON.
*/}}
{{- define "gha-runner-scale-set.hook-template" -}}
{{- $own := include "gha-runner-scale-set.own-hook-template" . | fromJson }}
{{- $template := dict }}
{{- if and $own (include "gha-runner-scale-set.is-kubernetes-mode" .) }}
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
{{- if kindIs "map" $template.spec }}
{{- $_ := set $template "spec" (include "gha-runner-scale-set.without-misplaced" $template.spec | fromJson) }}
{{- end }}
{{- with include "gha-runner-scale-set.seconds" .Values.jobGracePeriod | int64 }}
{{- $_ := set $template "spec" (include "gha-runner-scale-set.outlive-notice" (dict "spec" ($template.spec | default dict) "seconds" .) | fromJson) }}
{{- end }}
{{- end }}
{{- toJson $template }}
{{- end }}

{{/*
The spec of a template of job pods that outlive the notice of their end by the job's grace period, like their runner: the container
of the job gets SIGTERM after it only. What the user says of it stays. The manager does the same where there is no template. Takes
spec and seconds. JSON.
*/}}
{{- define "gha-runner-scale-set.outlive-notice" -}}
{{- $spec := .spec }}
{{- if kindIs "invalid" $spec.terminationGracePeriodSeconds }}
{{- $_ := set $spec "terminationGracePeriodSeconds" (add .seconds 10) }}
{{- end }}
{{- $wait := dict "exec" (dict "command" (list "sleep" (toString .seconds))) }}
{{- $containers := list }}
{{- $found := false }}
{{- range $container := $spec.containers }}
{{- if eq (toString $container.name) "$job" }}
{{- $found = true }}
{{- if not (($container.lifecycle | default dict).preStop) }}
{{- $_ := set $container "lifecycle" (merge (dict "preStop" $wait) ($container.lifecycle | default dict)) }}
{{- end }}
{{- end }}
{{- $containers = append $containers $container }}
{{- end }}
{{- if not $found }}
{{- $containers = append $containers (dict "name" "$job" "lifecycle" (dict "preStop" $wait)) }}
{{- end }}
{{- $_ := set $spec "containers" $containers }}
{{- toJson $spec }}
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

{{/*
In a directory of its own directly below the root: a user's own volume of hooks may be mounted read-only, and nothing can be mounted
below that. The manager uses the same directory.
*/}}
{{- define "gha-runner-scale-set.hook-template-path" -}}
/harrier-hook-template/template.yaml
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

{{/*
Names of the ConfigMaps that the manager reads in the kubernetes modes: the one with the template of job pods, of which it tries one
before the first job, and those from which the runner has variables, of which one may name a template. JSON.
*/}}
{{- define "gha-runner-scale-set.hook-config-maps" -}}
{{- $names := list }}
{{- if include "gha-runner-scale-set.is-kubernetes-mode" . }}
{{- $names = append $names (include "gha-runner-scale-set.hook-template-source" . | fromJson).name }}
{{- range (include "gha-runner-scale-set.own-runner" . | fromJson).envFrom }}
{{- $names = append $names (.configMapRef | default dict).name }}
{{- end }}
{{- end }}
{{- compact $names | uniq | toJson }}
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
