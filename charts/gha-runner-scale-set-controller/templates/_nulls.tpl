{{/*
A null in the values means not set, even deep inside values that are passed on as written: env, resources, affinity.
Kubernetes has no nulls, and would refuse some and drop others.
*/}}

{{/* The given map or list without nulls, at any depth. JSON, with the value under "value". */}}
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
