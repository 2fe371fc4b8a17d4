{{/*
A null in the values is what isn't set, also deep in what is handed on as the user wrote it: env, resources, affinity.
Kubernetes has no such value, and would refuse some of them and drop others.
*/}}

{{/* What is given, a map or a list, without its nulls at any depth. JSON, with the value under "value". */}}
{{- define "gha-runner-scale-set-controller.without-nulls" -}}
{{- $kept := . }}
{{- if kindIs "map" . }}
{{- $kept = dict }}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $kept $key (include "gha-runner-scale-set-controller.without-nulls" $value | fromJson).value }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" . }}
{{- $kept = list }}
{{- range . }}
{{- if not (kindIs "invalid" .) }}
{{- $kept = append $kept (include "gha-runner-scale-set-controller.without-nulls" . | fromJson).value }}
{{- end }}
{{- end }}
{{- end }}
{{- dict "value" $kept | toJson }}
{{- end }}
