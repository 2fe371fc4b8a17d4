{{/*
Fields that Kubernetes doesn't have, in values that are handed on to it as they are. Without server-side apply it drops them with a warning
that few tools show, so people have them and don't know.
*/}}

{{/*
The unknown fields of these values, each with its path. Those that belong into the other securityContext have a sentence of their own, and
what the schema refuses doesn't come here. JSON, a list.
*/}}
{{- define "gha-runner-scale-set-controller.unknown-fields" -}}
{{- $types := .Files.Get "pod-fields.yaml" | fromYaml }}
{{- $values := .Values | toJson | fromJson }}
{{- range $key := list "podSecurityContext" "securityContext" }}
{{- $_ := set $values $key (include "gha-runner-scale-set-controller.security-context" (dict "root" $ "key" $key) | fromJson) }}
{{- end }}
{{- $found := dict "fields" list }}
{{- range $path, $type := dict "affinity" "Affinity" "env" "EnvVar" "podSecurityContext" "PodSecurityContext"
    "resources" "ResourceRequirements" "securityContext" "SecurityContext" "tolerations" "Toleration"
    "topologySpreadConstraints" "TopologySpreadConstraint" "volumeMounts" "VolumeMount" "volumes" "Volume"
    "networkPolicy.metricsFrom" "NetworkPolicyPeer" "networkPolicy.egress" "NetworkPolicyEgressRule"
    "history.networkPolicy.metricsFrom" "NetworkPolicyPeer" "history.networkPolicy.egress" "NetworkPolicyEgressRule"
    "history.allowFrom" "NetworkPolicyPeer" "history.affinity" "Affinity" "history.resources" "ResourceRequirements"
    "history.tolerations" "Toleration" }}
{{- $value := $values }}
{{- range splitList "." $path }}
{{- $value = get ($value | default dict) . }}
{{- end }}
{{- $value = (include "gha-runner-scale-set-controller.without-nulls" $value | fromJson).value }}
{{- include "gha-runner-scale-set-controller.find-unknown" (dict "value" $value "type" $type "at" $path "types" $types "found" $found) }}
{{- end }}
{{- toJson $found.fields }}
{{- end }}

{{/* Appends to found what a value, or a list of such, has beyond the fields of its type. Takes value, type, at, types, found. */}}
{{- define "gha-runner-scale-set-controller.find-unknown" -}}
{{- $fields := get .types .type }}
{{- if kindIs "slice" .value }}
{{- range $i, $part := .value }}
{{- include "gha-runner-scale-set-controller.find-unknown" (merge (dict "value" $part "at" (printf "%s[%d]" $.at $i)) (omit $ "value" "at")) }}
{{- end }}
{{- else if kindIs "map" .value }}
{{- range $field, $part := .value }}
{{- $path := printf "%s.%s" $.at $field }}
{{- if not (hasKey $fields $field) }}
{{- $_ := set $.found "fields" (append $.found.fields $path) }}
{{- else if get $fields $field }}
{{- include "gha-runner-scale-set-controller.find-unknown" (merge (dict "value" $part "type" (get $fields $field) "at" $path) (omit $ "value" "type" "at")) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
