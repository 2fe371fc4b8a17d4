{{/*
Labels and annotations. Their order of precedence, lowest first: the values `labels` and `annotations`, those of
`resourceMeta.<kind>`, and what the chart sets itself.
*/}}

{{/*
A scalar as the user wrote it, "" for null. YAML numbers arrive as floats, and a float of seven digits or more prints as
1.2e+07. From 2^53 on a float has lost digits, which nobody would notice in an ID.
*/}}
{{- define "gha-runner-scale-set.scalar" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}
{{- if or (ge . 9007199254740992.0) (le . -9007199254740992.0) }}
{{- fail (printf "the number %.0f is too long to be kept as it was written: put it in quotes" .) }}
{{- end }}
{{- . | int64 }}
{{- else if not (kindIs "invalid" .) }}
{{- . | toString }}
{{- end }}
{{- end }}

{{/*
Merges a list of maps; every value becomes a string. Later maps take precedence, and null removes a key, as in Helm's
values. JSON.
*/}}
{{- define "gha-runner-scale-set.strings" -}}
{{- $strings := dict }}
{{- range . }}
{{- range $key, $value := . | default dict }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $strings $key }}
{{- else }}
{{- $_ := set $strings $key (include "gha-runner-scale-set.scalar" $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $strings }}
{{- end }}

{{/* Labels of every object. JSON. */}}
{{- define "gha-runner-scale-set.chart-labels" -}}
{{- $name := include "gha-runner-scale-set.scale-set-name" . }}
{{- dict
    "helm.sh/chart" (printf "gha-rs-%s" .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
    "app.kubernetes.io/name" $name
    "app.kubernetes.io/instance" $name
    "app.kubernetes.io/version" .Chart.AppVersion
    "app.kubernetes.io/managed-by" .Release.Service
    "app.kubernetes.io/part-of" "gha-rs"
    "actions.github.com/scale-set-name" $name
    "actions.github.com/scale-set-namespace" (include "gha-runner-scale-set.namespace" .)
    | toJson }}
{{- end }}

{{/*
Labels of the pods that run a job of this set, by which its PodDisruptionBudget selects them, among others: the controller puts them
on runner pods, and pods that container hooks start for a job are protected by the same ones. The first is the name of the
AutoscalingRunnerSet. JSON.
*/}}
{{- define "gha-runner-scale-set.protected-labels" -}}
{{- dict
    "actions.github.com/scale-set-name" (include "gha-runner-scale-set.resource-name" .)
    "actions.github.com/scale-set-namespace" (include "gha-runner-scale-set.namespace" .)
    "actions.github.com/runner-busy" "true"
    | toJson }}
{{- end }}

{{/*
The given labels except those that clash with the chart's, which the controller depends on. Takes root and labels.
JSON.
*/}}
{{- define "gha-runner-scale-set.allowed-labels" -}}
{{- $reserved := include "gha-runner-scale-set.chart-labels" .root | fromJson }}
{{- $allowed := dict }}
{{- range $key, $value := .labels }}
{{- if not (or (hasKey $reserved $key) (eq $key "app.kubernetes.io/component") (hasPrefix "actions.github.com/" $key)) }}
{{- $_ := set $allowed $key $value }}
{{- end }}
{{- end }}
{{- toJson $allowed }}
{{- end }}

{{/*
The given annotations except those that the controller reads on an AutoscalingRunnerSet. JSON.
*/}}
{{- define "gha-runner-scale-set.allowed-annotations" -}}
{{- $allowed := dict }}
{{- range $key, $value := . }}
{{- if not (or (hasPrefix "actions.github.com/cleanup-" $key) (eq $key "actions.github.com/values-hash")) }}
{{- $_ := set $allowed $key $value }}
{{- end }}
{{- end }}
{{- toJson $allowed }}
{{- end }}

{{/*
The metadata block of an object. Takes
  root         the chart's context
  name         of the object
  kind         its key in resourceMeta
  component    its app.kubernetes.io/component, if it has one
  formerly     annotations by a key that actions-runner-controller had before resourceMeta
  annotations  the chart's own annotations, given for the AutoscalingRunnerSet alone: there, what the user wrote may not
               set what the controller reads
*/}}
{{- define "gha-runner-scale-set.metadata" -}}
{{- $meta := get (.root.Values.resourceMeta | default dict) .kind | default dict }}
{{- $reserved := include "gha-runner-scale-set.chart-labels" .root | fromJson }}
{{- with .component }}
{{- $_ := set $reserved "app.kubernetes.io/component" . }}
{{- end }}
{{- $global := include "gha-runner-scale-set.allowed-labels" (dict "root" .root "labels" .root.Values.labels) | fromJson }}
{{- $labels := $meta.labels }}
{{- $annotations := include "gha-runner-scale-set.strings" (list .root.Values.annotations .formerly $meta.annotations) | fromJson }}
{{- if .annotations }}
{{- $labels = include "gha-runner-scale-set.allowed-labels" (dict "root" .root "labels" $labels) | fromJson }}
{{- $annotations = include "gha-runner-scale-set.allowed-annotations" $annotations | fromJson }}
{{- end -}}
name: {{ .name | quote }}
namespace: {{ include "gha-runner-scale-set.namespace" .root | quote }}
labels:
  {{- include "gha-runner-scale-set.strings" (list $global $labels $reserved) | fromJson | toYaml | nindent 2 }}
{{- with include "gha-runner-scale-set.strings" (list $annotations .annotations) | fromJson }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
