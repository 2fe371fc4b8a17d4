{{/*
Fields of pod templates that Kubernetes doesn't have. Without server-side apply it drops them with a warning that few tools show, so
people have them and don't know. The schema of the values refuses those of pods and containers; the others are told here.
*/}}

{{/*
Fields of a securityContext that only one of the two has: a container's, or a pod's. JSON.
*/}}
{{- define "gha-runner-scale-set.security-fields" -}}
{{- dict
    "container" (list "allowPrivilegeEscalation" "capabilities" "privileged" "procMount" "readOnlyRootFilesystem")
    "pod" (list "fsGroup" "fsGroupChangePolicy" "seLinuxChangePolicy" "supplementalGroups" "supplementalGroupsPolicy" "sysctls")
    | toJson }}
{{- end }}

{{/*
The spec of a pod without the fields of a securityContext that belong into the other one. Kubernetes has no use for them, and would refuse
the whole object under server-side apply, as of Helm 4. Takes the spec. JSON.
*/}}
{{- define "gha-runner-scale-set.without-misplaced" -}}
{{- $fields := include "gha-runner-scale-set.security-fields" . | fromJson }}
{{- $spec := . | toJson | fromJson }}
{{- if kindIs "map" $spec.securityContext }}
{{- range $field := $fields.container }}
{{- $_ := unset $spec.securityContext $field }}
{{- end }}
{{- end }}
{{- range $list := list "initContainers" "containers" }}
{{- if kindIs "slice" (get $spec $list) }}
{{- range $container := get $spec $list }}
{{- $security := kindIs "map" $container | ternary $container dict | dig "securityContext" "" }}
{{- if kindIs "map" $security }}
{{- range $field := $fields.pod }}
{{- $_ := unset $security $field }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $spec }}
{{- end }}

{{/*
The unknown fields of all pod templates in the values, each with its path, and right, its place in the other securityContext if it belongs
there. JSON, a list.
*/}}
{{- define "gha-runner-scale-set.unknown-fields" -}}
{{- $given := dict "template" .Values.template "listenerTemplate" .Values.listenerTemplate
    "containerMode.kubernetesModeHookTemplate" (.Values.containerMode | default dict).kubernetesModeHookTemplate }}
{{- range $i, $variant := .Values.variants }}
{{- $_ := set $given (printf "variants[%d].template" $i) $variant.template }}
{{- end }}
{{- $types := .Files.Get "pod-fields.yaml" | fromYaml }}
{{- $found := dict "fields" list }}
{{- range $at, $template := $given }}
{{- $spec := (include "gha-runner-scale-set.without-nulls" (($template | default dict).spec | default dict) | fromJson).value }}
{{- include "gha-runner-scale-set.find-unknown" (dict "value" $spec "type" "PodSpec" "at" (print $at ".spec") "template" $at "types" $types "found" $found) }}
{{- end }}
{{- toJson $found.fields }}
{{- end }}

{{/* Appends to found what a value, or a list of such, has beyond the fields of its type. Takes value, type, at, template, types, found. */}}
{{- define "gha-runner-scale-set.find-unknown" -}}
{{- $fields := get .types .type }}
{{- if kindIs "slice" .value }}
{{- range $i, $part := .value }}
{{- include "gha-runner-scale-set.find-unknown" (merge (dict "value" $part "at" (printf "%s[%d]" $.at $i)) (omit $ "value" "at")) }}
{{- end }}
{{- else if kindIs "map" .value }}
{{- range $field, $part := .value }}
{{- $path := printf "%s.%s" $.at $field }}
{{- if not (hasKey $fields $field) }}
{{- $right := "" }}
{{- $misplaced := include "gha-runner-scale-set.security-fields" $ | fromJson }}
{{- if and (eq $.type "PodSecurityContext") (has $field $misplaced.container) }}
{{- $right = printf "%s.spec.containers[].securityContext.%s" $.template $field }}
{{- else if and (eq $.type "SecurityContext") (has $field $misplaced.pod) }}
{{- $right = printf "%s.spec.securityContext.%s" $.template $field }}
{{- end }}
{{- $_ := set $.found "fields" (append $.found.fields (dict "path" $path "right" $right)) }}
{{- else if get $fields $field }}
{{- include "gha-runner-scale-set.find-unknown" (merge (dict "value" $part "type" (get $fields $field) "at" $path) (omit $ "value" "type" "at")) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The fields that are left out because they belong into the other securityContext, and where. JSON, a list. */}}
{{- define "gha-runner-scale-set.misplaced-fields" -}}
{{- $misplaced := list }}
{{- range include "gha-runner-scale-set.unknown-fields" . | fromJsonArray }}
{{- if .right }}
{{- $misplaced = append $misplaced . }}
{{- end }}
{{- end }}
{{- toJson $misplaced }}
{{- end }}
