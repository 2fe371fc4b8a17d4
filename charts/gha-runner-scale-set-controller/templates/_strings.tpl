{{/*
Values as the strings that Kubernetes requires, whatever YAML made of unquoted values.
*/}}

{{/*
A scalar as the user wrote it, "" for null. YAML numbers arrive as floats, and a float of seven digits or more prints as
1.2e+07. From 2^53 on a float has lost digits, which nobody would notice in an ID.
*/}}
{{- define "gha-runner-scale-set-controller.scalar" -}}
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
Merges a list of maps; every value becomes a string. Later maps take precedence, so that no key appears twice, and null
removes a key, as in Helm's values. YAML; empty without keys.
*/}}
{{- define "gha-runner-scale-set-controller.strings" -}}
{{- $strings := dict }}
{{- range . }}
{{- range $key, $value := . | default dict }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $strings $key }}
{{- else }}
{{- $_ := set $strings $key (include "gha-runner-scale-set-controller.scalar" $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- with $strings }}
{{- toYaml . }}
{{- end }}
{{- end }}
